// Writes a checkpoint of random weights in Hugging Face's format for a folder that has a
// config.json: sharded safetensors with their index. The numbers equal the numbers of --load-format
// dummy with the same seed, so both serve the same model. Modules that the quantization_config
// quantizes have random codes.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/base/progress.h"

namespace quire::bench {

struct CheckpointOptions {
  uint64_t seed = 0;
  int64_t max_shard_bytes = int64_t{5'000'000'000};  // Hugging Face's own default
  int num_threads = 0;                               // 0: one per core
  Progress* progress = nullptr;                      // counts bytes written
};

struct CheckpointSize {
  int64_t num_tensors = 0;
  int64_t num_files = 0;
  int64_t size_bytes = 0;  // of the tensors
};

// The bytes of all tensors of the folder's config.json. Errors name the file.
absl::StatusOr<int64_t> CheckpointBytes(const std::string& folder);

// Tensors are bfloat16, whatever config.json's dtype is, or as its quantization_config says. Errors
// name the file.
absl::StatusOr<CheckpointSize> WriteRandomCheckpoint(const std::string& folder,
                                                     const CheckpointOptions& options);

}  // namespace quire::bench

#include "tools/bench/engine/checkpoint_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/model/config/model_config.h"
#include "engine/model/model_weights.h"
#include "kernels/base/random_weight.h"
#include "kernels/base/status_macros.h"
#include "kernels/host_limits.h"
#include "nlohmann/json.hpp"
#include "server/transport/unique_fd.h"

namespace quire::bench {

namespace {

constexpr int64_t kChunkBytes = 4 << 20;

// One tensor of the checkpoint: rows of a random matrix, or a vector of one value.
struct FileTensor {
  std::string name;
  std::vector<int64_t> shape;
  uint64_t tensor_id = 0;  // of the fused weight, whose rows begin at first_row here
  int64_t first_row = 0;
  float value = 0;     // of a vector's elements
  int64_t offset = 0;  // in its shard's data
  size_t shard = 0;

  bool is_matrix() const { return shape.size() == 2; }
  int64_t row_bytes() const { return 2 * shape.back(); }
  int64_t num_rows() const { return is_matrix() ? shape[0] : 1; }
  int64_t bytes() const { return num_rows() * row_bytes(); }
};

struct Shard {
  std::string name;
  UniqueFd fd;
  int64_t data_bytes = 0;
  int64_t data_offset = 0;
};

std::vector<FileTensor> ListTensors(const ModelConfig& config) {
  ModelWeights weights;
  const WeightPlan plan =
      PlanWeights(config, &weights);  // in the order of Weights::Load, which numbers the matrices
  std::vector<FileTensor> tensors;
  for (size_t i = 0; i < plan.matrices.size(); ++i) {
    int64_t first_row = 0;
    for (const WeightPart& part : plan.matrices[i].parts) {
      tensors.push_back({.name = part.name,
                         .shape = {part.num_rows, plan.matrices[i].weight->in_features},
                         .tensor_id = i,
                         .first_row = first_row});
      first_row += part.num_rows;
    }
  }
  for (const VectorPlan& vector : plan.vectors) {
    for (const WeightPart& part : vector.parts) {
      tensors.push_back({.name = part.name, .shape = {part.num_rows}, .value = vector.dummy_value});
    }
  }
  return tensors;
}

// Fills shards one after the other; a tensor is never split.
std::vector<Shard> AssignShards(int64_t max_shard_bytes, std::vector<FileTensor>* tensors) {
  std::vector<Shard> shards(1);
  for (FileTensor& tensor : *tensors) {
    const bool full = shards.back().data_bytes + tensor.bytes() > max_shard_bytes;
    if (full && shards.back().data_bytes > 0) shards.emplace_back();
    tensor.shard = shards.size() - 1;
    tensor.offset = shards.back().data_bytes;
    shards.back().data_bytes += tensor.bytes();
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    shards[i].name = shards.size() == 1
                         ? "model.safetensors"
                         : absl::StrFormat("model-%05d-of-%05d.safetensors", i + 1, shards.size());
  }
  return shards;
}

absl::Status FileError(const std::string& path) {
  return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
}

absl::Status WriteAll(const Shard& shard, const char* data, int64_t bytes, int64_t offset) {
  while (bytes > 0) {
    const ssize_t count = pwrite(shard.fd.get(), data, bytes, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError(shard.name);
    data += count;
    bytes -= count;
    offset += count;
  }
  return absl::OkStatus();
}

// Creates the file with its header: 8 bytes of length, JSON padded to a multiple of 8.
absl::Status OpenShard(const std::string& folder, const std::vector<FileTensor>& tensors,
                       size_t index, Shard* shard) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  for (const FileTensor& tensor : tensors) {
    if (tensor.shard != index) continue;
    header[tensor.name] = {{"dtype", "BF16"},
                           {"shape", tensor.shape},
                           {"data_offsets", {tensor.offset, tensor.offset + tensor.bytes()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string begin(8, '\0');
  for (int i = 0; i < 8; ++i) begin[i] = static_cast<char>(text.size() >> (8 * i));
  begin += text;
  const std::string path = absl::StrCat(folder, "/", shard->name);
  shard->fd = UniqueFd(open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644));
  if (!shard->fd.valid()) return FileError(path);
  shard->data_offset = static_cast<int64_t>(begin.size());
  return WriteAll(*shard, begin.data(), shard->data_offset, 0);
}

absl::Status WriteIndex(const std::string& folder, const std::vector<FileTensor>& tensors,
                        const std::vector<Shard>& shards, int64_t total_bytes) {
  if (shards.size() == 1) return absl::OkStatus();
  nlohmann::ordered_json index = {{"metadata", {{"total_size", total_bytes}}}};
  for (const FileTensor& tensor : tensors) {
    index["weight_map"][tensor.name] = shards[tensor.shard].name;
  }
  const std::string path = absl::StrCat(folder, "/model.safetensors.index.json");
  std::ofstream file(path);
  file << index.dump(2) << "\n";
  return file.flush() ? absl::OkStatus() : FileError(path);
}

// Rows of one tensor, the work of one thread at a time.
struct Chunk {
  const FileTensor* tensor;
  int64_t begin, end;
};

std::vector<Chunk> SplitIntoChunks(const std::vector<FileTensor>& tensors) {
  std::vector<Chunk> chunks;
  for (const FileTensor& tensor : tensors) {
    const int64_t rows = std::max<int64_t>(1, kChunkBytes / tensor.row_bytes());
    for (int64_t row = 0; row < tensor.num_rows(); row += rows) {
      chunks.push_back({&tensor, row, std::min(row + rows, tensor.num_rows())});
    }
  }
  return chunks;
}

void FillRow(const FileTensor& tensor, uint64_t seed, int64_t row, BFloat16* out) {
  const int64_t size = tensor.shape.back();
  if (!tensor.is_matrix()) {
    std::fill_n(out, size, BFloat16(tensor.value));
    return;
  }
  // As Weights::Load fills it without a checkpoint.
  const uint64_t key = RandomRowKey(seed, tensor.tensor_id, tensor.first_row + row);
  const float scale = RandomWeightScale(1.0f / std::sqrt(static_cast<float>(size)));
  for (int64_t i = 0; i < size; ++i) {
    out[i] = BFloat16(static_cast<float>(RandomByteSum(key, i)) * scale);
  }
}

absl::Status WriteChunk(const Chunk& chunk, uint64_t seed, const std::vector<Shard>& shards,
                        std::vector<BFloat16>* buffer) {
  const FileTensor& tensor = *chunk.tensor;
  const int64_t row_size = tensor.shape.back();
  buffer->resize((chunk.end - chunk.begin) * row_size);
  for (int64_t row = chunk.begin; row < chunk.end; ++row) {
    FillRow(tensor, seed, row, buffer->data() + (row - chunk.begin) * row_size);
  }
  const Shard& shard = shards[tensor.shard];
  return WriteAll(shard, reinterpret_cast<const char*>(buffer->data()),
                  static_cast<int64_t>(buffer->size()) * 2,
                  shard.data_offset + tensor.offset + chunk.begin * tensor.row_bytes());
}

absl::Status WriteData(const std::vector<FileTensor>& tensors, const std::vector<Shard>& shards,
                       const CheckpointOptions& options, ProgressStage& stage) {
  const std::vector<Chunk> chunks = SplitIntoChunks(tensors);
  const size_t num_threads = options.num_threads > 0 ? options.num_threads : NumUsableCpus();
  std::atomic<size_t> next = 0;
  std::vector<absl::Status> statuses(num_threads);
  std::vector<std::thread> threads;
  threads.reserve(num_threads);
  for (absl::Status& status : statuses) {
    threads.emplace_back([&] {
      std::vector<BFloat16> buffer;
      for (size_t i = next++; i < chunks.size() && status.ok(); i = next++) {
        status = WriteChunk(chunks[i], options.seed, shards, &buffer);
        stage.Add(static_cast<int64_t>(buffer.size()) * 2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  absl::Status status;
  for (const absl::Status& one : statuses) status.Update(one);
  return status;
}

}  // namespace

absl::StatusOr<int64_t> CheckpointBytes(const std::string& folder) {
  ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(folder));
  int64_t bytes = 0;
  for (const FileTensor& tensor : ListTensors(config)) bytes += tensor.bytes();
  return bytes;
}

absl::StatusOr<CheckpointSize> WriteRandomCheckpoint(const std::string& folder,
                                                     const CheckpointOptions& options) {
  ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(folder));
  std::vector<FileTensor> tensors = ListTensors(config);
  std::vector<Shard> shards = AssignShards(options.max_shard_bytes, &tensors);
  CheckpointSize size = {.num_tensors = static_cast<int64_t>(tensors.size()),
                         .num_files = static_cast<int64_t>(shards.size())};
  for (size_t i = 0; i < shards.size(); ++i) {
    RETURN_IF_ERROR(OpenShard(folder, tensors, i, &shards[i]));
    size.size_bytes += shards[i].data_bytes;
  }
  ProgressStage stage(options.progress, "writing weights", size.size_bytes, ProgressUnit::kBytes);
  RETURN_IF_ERROR(WriteData(tensors, shards, options, stage));
  RETURN_IF_ERROR(WriteIndex(folder, tensors, shards, size.size_bytes));
  return size;
}

}  // namespace quire::bench

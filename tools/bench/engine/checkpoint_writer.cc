#include "tools/bench/engine/checkpoint_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/model/config/model_config.h"
#include "kernels/base/status_macros.h"
#include "kernels/host_limits.h"
#include "nlohmann/json.hpp"
#include "server/wire/transport/unique_fd.h"
#include "tools/bench/engine/checkpoint_tensors.h"

namespace quire::bench {

namespace {

constexpr int64_t kChunkBytes = 4 << 20;

// Where a tensor lies.
struct PlacedTensor {
  FileTensor tensor;
  int64_t offset = 0;  // in its shard's data
  size_t shard = 0;
};

struct Shard {
  std::string name;
  UniqueFd fd;
  int64_t data_bytes = 0;
  int64_t data_offset = 0;
};

// Fills shards one after the other; a tensor is never split.
std::vector<Shard> AssignShards(int64_t max_shard_bytes, std::vector<PlacedTensor>* tensors) {
  std::vector<Shard> shards(1);
  for (PlacedTensor& placed : *tensors) {
    const int64_t bytes = placed.tensor.bytes();
    const bool full = shards.back().data_bytes + bytes > max_shard_bytes;
    if (full && shards.back().data_bytes > 0) shards.emplace_back();
    placed.shard = shards.size() - 1;
    placed.offset = shards.back().data_bytes;
    shards.back().data_bytes += bytes;
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
absl::Status OpenShard(const std::string& folder, const std::vector<PlacedTensor>& tensors,
                       size_t index, Shard* shard) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  for (const PlacedTensor& placed : tensors) {
    if (placed.shard != index) continue;
    const FileTensor& tensor = placed.tensor;
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {placed.offset, placed.offset + tensor.bytes()}}};
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

absl::Status WriteIndex(const std::string& folder, const std::vector<PlacedTensor>& tensors,
                        const std::vector<Shard>& shards, int64_t total_bytes) {
  if (shards.size() == 1) return absl::OkStatus();
  nlohmann::ordered_json index = {{"metadata", {{"total_size", total_bytes}}}};
  for (const PlacedTensor& placed : tensors) {
    index["weight_map"][placed.tensor.name] = shards[placed.shard].name;
  }
  const std::string path = absl::StrCat(folder, "/model.safetensors.index.json");
  std::ofstream file(path);
  file << index.dump(2) << "\n";
  return file.flush() ? absl::OkStatus() : FileError(path);
}

// Rows of one tensor, the work of one thread at a time.
struct Chunk {
  const PlacedTensor* placed;
  int64_t begin, end;
};

std::vector<Chunk> SplitIntoChunks(const std::vector<PlacedTensor>& tensors) {
  std::vector<Chunk> chunks;
  for (const PlacedTensor& placed : tensors) {
    const int64_t rows = std::max<int64_t>(1, kChunkBytes / placed.tensor.row_bytes());
    const int64_t num_rows = placed.tensor.num_rows();
    for (int64_t row = 0; row < num_rows; row += rows) {
      chunks.push_back({&placed, row, std::min(row + rows, num_rows)});
    }
  }
  return chunks;
}

absl::Status WriteChunk(const Chunk& chunk, uint64_t seed, const std::vector<Shard>& shards,
                        std::vector<char>* buffer) {
  const FileTensor& tensor = chunk.placed->tensor;
  const int64_t row_bytes = tensor.row_bytes();
  buffer->resize((chunk.end - chunk.begin) * row_bytes);
  for (int64_t row = chunk.begin; row < chunk.end; ++row) {
    FillRow(tensor, seed, row, buffer->data() + (row - chunk.begin) * row_bytes);
  }
  const Shard& shard = shards[chunk.placed->shard];
  return WriteAll(shard, buffer->data(), static_cast<int64_t>(buffer->size()),
                  shard.data_offset + chunk.placed->offset + chunk.begin * row_bytes);
}

absl::Status WriteData(const std::vector<PlacedTensor>& tensors, const std::vector<Shard>& shards,
                       const CheckpointOptions& options, ProgressStage& stage) {
  const std::vector<Chunk> chunks = SplitIntoChunks(tensors);
  const size_t num_threads = options.num_threads > 0 ? options.num_threads : NumUsableCpus();
  std::atomic<size_t> next = 0;
  std::vector<absl::Status> statuses(num_threads);
  std::vector<std::thread> threads;
  threads.reserve(num_threads);
  for (absl::Status& status : statuses) {
    threads.emplace_back([&] {
      std::vector<char> buffer;
      for (size_t i = next++; i < chunks.size() && status.ok(); i = next++) {
        status = WriteChunk(chunks[i], options.seed, shards, &buffer);
        stage.Add(static_cast<int64_t>(buffer.size()));
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
  ASSIGN_OR_RETURN(const std::vector<FileTensor> tensors, ListTensors(config));
  int64_t bytes = 0;
  for (const FileTensor& tensor : tensors) bytes += tensor.bytes();
  return bytes;
}

absl::StatusOr<CheckpointSize> WriteRandomCheckpoint(const std::string& folder,
                                                     const CheckpointOptions& options) {
  ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(folder));
  ASSIGN_OR_RETURN(const std::vector<FileTensor> listed, ListTensors(config));
  std::vector<PlacedTensor> tensors;
  tensors.reserve(listed.size());
  for (const FileTensor& tensor : listed) tensors.push_back({.tensor = tensor});
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

// Safetensors: one weight file. The header is untrusted: every size is computed with overflow
// checks, and together the tensors must cover the data exactly, without holes or overlaps, before
// any of it is read. Data is read with pread, because a mapped file that shrinks kills the process.
// Reading is thread safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/base/dtype.h"

namespace quire {

struct SafetensorsTensor {
  std::string name;
  std::string dtype_name;      // "BF16", "F8_E4M3", ...
  std::optional<DType> dtype;  // set if weights can be loaded from it: F32, F16, BF16
  std::vector<int64_t> shape;  // empty for a scalar
  int64_t begin = 0;           // in bytes from the first data byte
  int64_t end = 0;
};

// Parses the JSON text of a header, for a file with `data_bytes` bytes after it. `name` begins
// every error, all INVALID_ARGUMENT. The result is in the order of the data.
absl::StatusOr<std::vector<SafetensorsTensor>> ParseSafetensorsHeader(absl::string_view header,
                                                                      uint64_t data_bytes,
                                                                      absl::string_view name);

class SafetensorsFile {
 public:
  // Opens and checks <folder>/<name>. NOT_FOUND when there is none, INVALID_ARGUMENT when it is
  // not a whole, valid safetensors file.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& folder, const std::string& name);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;

  const std::string& name() const { return name_; }
  int64_t size_bytes() const { return data_offset_ + data_bytes_; }
  const std::vector<SafetensorsTensor>& tensors() const { return tensors_; }
  const SafetensorsTensor* Find(absl::string_view tensor) const;

  // Reads `bytes` bytes from `offset` in the tensor's data. INVALID_ARGUMENT when the file has
  // become shorter or cannot be read.
  absl::Status Read(const SafetensorsTensor& tensor, int64_t offset, int64_t bytes,
                    void* destination) const;

 private:
  SafetensorsFile(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}
  absl::Status ReadHeader();

  int fd_;
  std::string name_;
  int64_t data_offset_ = 0;
  int64_t data_bytes_ = 0;
  std::vector<SafetensorsTensor> tensors_;
  absl::flat_hash_map<std::string, size_t> index_;  // name -> position in tensors_
};

}  // namespace quire

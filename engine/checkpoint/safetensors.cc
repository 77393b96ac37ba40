#include "engine/checkpoint/safetensors.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/json/json_reader.h"
#include "engine/json/model_file.h"
#include "kernels/base/status_macros.h"

namespace quire {
namespace {

using nlohmann::json;

constexpr int64_t kLengthBytes = 8;  // little-endian length of the header
// The format allows 100 MB. A hundred thousand tensors fit this, and a hostile header that is
// parsed before anything else can be trusted costs little memory.
constexpr uint64_t kMaxHeaderBytes = 16 << 20;
constexpr char kFetchAgain[] = "copy or download it again";

struct SafetensorsDType {
  absl::string_view name;
  int64_t bits;
  std::optional<DType> dtype;
};

constexpr SafetensorsDType kDTypes[] = {
    {"F32", 32, DType::kF32},         {"BF16", 16, DType::kBF16},
    {"F16", 16, DType::kF16},         {"BOOL", 8, std::nullopt},
    {"F4", 4, std::nullopt},          {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},     {"U8", 8, std::nullopt},
    {"I8", 8, std::nullopt},          {"F8_E5M2", 8, std::nullopt},
    {"F8_E4M3", 8, std::nullopt},     {"F8_E8M0", 8, std::nullopt},
    {"F8_E4M3FNUZ", 8, std::nullopt}, {"F8_E5M2FNUZ", 8, std::nullopt},
    {"I16", 16, std::nullopt},        {"U16", 16, std::nullopt},
    {"I32", 32, std::nullopt},        {"U32", 32, std::nullopt},
    {"C64", 64, std::nullopt},        {"F64", 64, std::nullopt},
    {"I64", 64, std::nullopt},        {"U64", 64, std::nullopt},
};

const SafetensorsDType* FindDType(absl::string_view name) {
  for (const SafetensorsDType& dtype : kDTypes) {
    if (dtype.name == name) return &dtype;
  }
  return nullptr;
}

// A non-negative integer that fits int64. JSON's -1, 1.0 and 1e300 are none.
std::optional<int64_t> ToSize(const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX) return std::nullopt;
  return value.get<int64_t>();
}

// Every dimension takes part, so that no later zero hides an overflow.
std::optional<int64_t> ByteSize(const std::vector<int64_t>& shape, int64_t bits_per_element) {
  int64_t bits = bits_per_element;
  for (int64_t extent : shape) {
    if (__builtin_mul_overflow(bits, extent, &bits)) return std::nullopt;
  }
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

// One entry of the header; `where` names file and tensor.
absl::StatusOr<SafetensorsTensor> ParseTensor(const std::string& name, const json& entry,
                                              absl::string_view where) {
  const auto error = [&](const auto&... message) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": ", message...));
  };
  if (!entry.is_object()) return error("must be an object");
  const auto dtype = entry.find("dtype");
  const auto shape = entry.find("shape");
  const auto offsets = entry.find("data_offsets");
  if (dtype == entry.end() || shape == entry.end() || offsets == entry.end()) {
    return error("must have dtype, shape and data_offsets");
  }
  const SafetensorsDType* known =
      dtype->is_string() ? FindDType(dtype->get_ref<const std::string&>()) : nullptr;
  if (known == nullptr) return error("unknown dtype ", Shown(*dtype));

  SafetensorsTensor tensor = {name, std::string(known->name), known->dtype, {}, 0, 0};
  if (!shape->is_array()) return error("shape must be a list");
  for (const json& extent : *shape) {
    const std::optional<int64_t> size = ToSize(extent);
    if (!size) return error("shape has ", Shown(extent), ", which is not a size");
    tensor.shape.push_back(*size);
  }
  const bool is_pair = offsets->is_array() && offsets->size() == 2;
  const std::optional<int64_t> begin = is_pair ? ToSize((*offsets)[0]) : std::nullopt;
  const std::optional<int64_t> end = is_pair ? ToSize((*offsets)[1]) : std::nullopt;
  if (!begin || !end || *end < *begin) {
    return error("data_offsets must be [begin, end] with 0 <= begin <= end");
  }
  tensor.begin = *begin;
  tensor.end = *end;

  const std::optional<int64_t> bytes = ByteSize(tensor.shape, known->bits);
  if (!bytes) return error("the size of its shape overflows or is no whole number of bytes");
  if (*bytes != tensor.end - tensor.begin) {
    return error("its shape takes ", WithCommas(*bytes), " bytes, but data_offsets cover ",
                 WithCommas(tensor.end - tensor.begin));
  }
  return tensor;
}

absl::Status CheckMetadata(const json& metadata, absl::string_view name) {
  const auto is_string = [](const json& value) { return value.is_string(); };
  if (metadata.is_object() && std::all_of(metadata.begin(), metadata.end(), is_string)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": __metadata__ must map strings to strings"));
}

// The tensors, sorted by offset, must follow each other from the first data byte to the last.
absl::Status CheckCoverage(const std::vector<SafetensorsTensor>& tensors, uint64_t data_bytes,
                           absl::string_view name) {
  int64_t covered = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.begin != covered) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, ": tensor ", Shown(tensor.name), " begins at byte ", WithCommas(tensor.begin),
          tensor.begin < covered ? " and overlaps the one before it, which ends at "
                                 : " and leaves a hole after the one before it, which ends at ",
          WithCommas(covered)));
    }
    covered = tensor.end;
  }
  const uint64_t expected = covered;
  if (expected == data_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, expected > data_bytes ? " is truncated" : " has trailing bytes",
                   ": header says ", WithCommas(expected), " bytes of data, file has ",
                   WithCommas(data_bytes), "; ", kFetchAgain));
}

}  // namespace

absl::StatusOr<std::vector<SafetensorsTensor>> ParseSafetensorsHeader(absl::string_view header,
                                                                      uint64_t data_bytes,
                                                                      absl::string_view name) {
  if (!absl::StartsWith(header, "{")) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": the header must begin with '{'"));
  }
  ASSIGN_OR_RETURN(const json root, ParseJsonObject(header, absl::StrCat(name, " (header)"),
                                                    DuplicateKeys::kRefused));
  std::vector<SafetensorsTensor> tensors;
  tensors.reserve(root.size());
  for (const auto& [key, entry] : root.items()) {
    if (key == "__metadata__") {
      RETURN_IF_ERROR(CheckMetadata(entry, name));
      continue;
    }
    ASSIGN_OR_RETURN(SafetensorsTensor tensor,
                     ParseTensor(key, entry, absl::StrCat(name, ": tensor ", Shown(key))));
    tensors.push_back(std::move(tensor));
  }
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  RETURN_IF_ERROR(CheckCoverage(tensors, data_bytes, name));
  return tensors;
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& folder,
                                                      const std::string& name) {
  ASSIGN_OR_RETURN(const int fd, OpenModelFile(folder, name));
  SafetensorsFile file(fd, name);
  RETURN_IF_ERROR(file.ReadHeader());
  return file;
}

SafetensorsFile::~SafetensorsFile() {
  if (fd_ >= 0) close(fd_);
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      name_(std::move(other.name_)),
      data_offset_(other.data_offset_),
      data_bytes_(other.data_bytes_),
      tensors_(std::move(other.tensors_)),
      index_(std::move(other.index_)) {}

const SafetensorsTensor* SafetensorsFile::Find(absl::string_view tensor) const {
  const auto it = index_.find(tensor);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

absl::Status SafetensorsFile::Read(const SafetensorsTensor& tensor, int64_t offset, int64_t bytes,
                                   void* destination) const {
  int64_t done = 0;
  while (done < bytes) {
    const ssize_t count = pread(fd_, static_cast<char*>(destination) + done, bytes - done,
                                data_offset_ + tensor.begin + offset + done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(name_, ": reading tensor ", Shown(tensor.name), ": ", std::strerror(errno)));
    }
    if (count == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(name_, ": tensor ", Shown(tensor.name),
                       ": the file became shorter while it was read; ", kFetchAgain));
    }
    done += count;
  }
  return absl::OkStatus();
}

absl::Status SafetensorsFile::ReadHeader() {
  const auto error = [&](const auto&... message) {
    return absl::InvalidArgumentError(absl::StrCat(name_, message...));
  };
  struct stat info;
  if (fstat(fd_, &info) != 0) return error(": ", std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return error(" is not a regular file");
  const uint64_t file_bytes = info.st_size;
  if (file_bytes < kLengthBytes) {
    return error(" has ", file_bytes, " bytes, too few for a safetensors file; ", kFetchAgain);
  }
  unsigned char length_bytes[kLengthBytes];
  const SafetensorsTensor whole_file = {"(header)", "", std::nullopt, {}, 0, 0};
  RETURN_IF_ERROR(Read(whole_file, 0, kLengthBytes, length_bytes));
  if (std::memcmp(length_bytes, "version ", kLengthBytes) == 0) {
    return error(" is a Git LFS pointer, not the weights; run `git lfs pull` in its folder");
  }
  uint64_t header_bytes = 0;
  for (int i = kLengthBytes - 1; i >= 0; --i) header_bytes = header_bytes << 8 | length_bytes[i];
  if (header_bytes > kMaxHeaderBytes) {
    return error(" is not a safetensors file: header length ", WithCommas(header_bytes),
                 " is above the limit of ", WithCommas(kMaxHeaderBytes));
  }
  if (header_bytes > file_bytes - kLengthBytes) {
    return error(" is truncated: header length is ", WithCommas(header_bytes), ", file has ",
                 WithCommas(file_bytes), " bytes; ", kFetchAgain);
  }
  std::string header(header_bytes, '\0');
  RETURN_IF_ERROR(Read(whole_file, kLengthBytes, header.size(), header.data()));
  data_offset_ = kLengthBytes + header_bytes;
  data_bytes_ = file_bytes - data_offset_;
  ASSIGN_OR_RETURN(tensors_, ParseSafetensorsHeader(header, data_bytes_, name_));
  for (size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
  return absl::OkStatus();
}

}  // namespace quire

// Tensors of a quantized module put together by hand, and the whole weight that they make.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/quantization/unpack.h"

namespace quire {

// For GoogleTest.
inline void PrintTo(const WeightScheme& scheme, std::ostream* out) { *out << Describe(scheme); }

// Keeps the bytes that PlaneBytes looks at.
class TestModule {
 public:
  TestModule(const WeightScheme& scheme, const ModuleShape& shape)
      : scheme_(scheme), shape_(shape) {}

  template <typename T>
  TestModule& Set(Plane plane, absl::string_view dtype, const std::vector<T>& elements) {
    std::vector<uint8_t>& bytes = bytes_[static_cast<size_t>(plane)];
    bytes.resize(elements.size() * sizeof(T));
    std::memcpy(bytes.data(), elements.data(), bytes.size());
    dtypes_[static_cast<size_t>(plane)] = std::string(dtype);
    return *this;
  }

  const WeightScheme& scheme() const { return scheme_; }
  ModulePlanes Planes() const;
  absl::StatusOr<WeightGroups> Groups() const { return ReadGroups(scheme_, shape_, Planes()); }
  // Both are for the whole weight.
  absl::StatusOr<std::vector<uint8_t>> Codes() const;
  absl::StatusOr<std::vector<float>> Values() const;

 private:
  WeightScheme scheme_;
  ModuleShape shape_;
  std::array<std::vector<uint8_t>, kNumPlanes> bytes_;
  std::array<std::string, kNumPlanes> dtypes_;
};

// [whole weight] by pieces: `stored_rows` rows of the tensor at a time, or all of them if 0.
absl::StatusOr<std::vector<float>> DequantizeInPieces(const WeightScheme& scheme,
                                                      const ModuleShape& shape,
                                                      const ModulePlanes& planes,
                                                      int64_t stored_rows);

}  // namespace quire

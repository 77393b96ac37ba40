// WeightScheme: how a checkpoint keeps the weight of one module on disk; and which tensors such a
// module has. A new format is a row of weight_scheme.cc, and its unpacking if it packs values in a
// new way. Plain values; any thread.
//
// A weight is [rows, columns]: output features, input features. rows x columns are covered by a
// grid of groups, and the value of an element is
//   integers:  (code - zero_point[group]) * scale[group]      codes and zero points are unsigned
//   floats:    value_of(code) * scale[group]
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace quire {

enum class WeightPacking : uint8_t {
  kFloat,       // not quantized: F32, BF16 or F16, row-major
  kFloat8,      // e4m3, a byte each, row-major
  kFloat4,      // e2m1, two in a byte, the even column in the low half, row-major
  kInt8,        // signed, a byte each, row-major
  kPackedRows,  // compressed-tensors: a row's fields one after the other, low bits first
  kGptq,        // [columns, rows]: a word has fields of 32 / bits columns, low bits first
  kAwq,         // [columns, rows]: a word has fields of 8 rows, in AWQ's order
};

enum class ScaleType : uint8_t { kFloat, kE4M3, kE8M0 };  // kFloat: F32, BF16 or F16

// One number for the whole weight, beside the scales of its groups. It is a divisor in
// compressed-tensors, and a factor in ModelOpt.
enum class GlobalScale : uint8_t { kNone, kFactor, kDivisor };

// The form that activations get before the gemm. kNone: they stay as they are. This is also used
// for activations that the checkpoint wants in 4 bits, or in float8 in groups of 32.
enum class ActivationScheme : uint8_t {
  kNone,
  kE4M3PerToken,
  kE4M3PerGroup,   // of 128 values of a token
  kE4M3PerTensor,  // with a scale that the checkpoint may have
  kInt8PerToken,
};

// The tensors that a module can have.
enum class Plane : uint8_t {
  kValues,
  kScales,
  kZeroPoints,
  kGlobalScale,
  kOrder,       // the group of each column (g_idx)
  kShape,       // of the weight, because packing hides it
  kInputScale,  // of the activations
};
inline constexpr size_t kNumPlanes = 7;

struct WeightScheme {
  WeightPacking packing = WeightPacking::kFloat;
  int bits = 16;  // of a value; kFloat: 16 stands for any
  // Rows and columns of a group; 0: all of them. Blocks (group_rows > 1) may be cut off by the
  // edge.
  int64_t group_rows = 0;
  int64_t group_columns = 0;
  ScaleType scale_type = ScaleType::kFloat;
  GlobalScale global_scale = GlobalScale::kNone;
  // Without zero points all are 2^(bits - 1), the middle; for kInt8 that is a stored 0.
  bool zero_points = false;
  // Columns belong to groups in the order of a tensor (GPTQ's desc_act).
  bool ordered = false;
  // Added to a stored zero point, modulo 2^bits. GPTQ's first version stores a zero point less one.
  int zero_offset = 0;
  ActivationScheme activations = ActivationScheme::kNone;
  // Scales of activations are rounded up to powers of two (DeepSeek's ue8m0).
  bool activation_scale_is_power_of_two = false;
  // The suffixes of a module's name in the names of its tensors, by plane; alternatives have a '|'
  // between them. Empty: the module has no such tensor.
  std::array<absl::string_view, kNumPlanes> suffixes = {".weight", "", "", "", "", "", ""};

  absl::string_view suffix(Plane plane) const { return suffixes[static_cast<size_t>(plane)]; }
  bool quantized() const { return packing != WeightPacking::kFloat; }
  bool IsInteger() const {
    return packing == WeightPacking::kInt8 || packing == WeightPacking::kPackedRows ||
           packing == WeightPacking::kGptq || packing == WeightPacking::kAwq;
  }
  // Bits of a code: a whole byte for kInt8, whatever part of it the values use.
  int code_bits() const { return packing == WeightPacking::kInt8 ? 8 : bits; }
  bool operator==(const WeightScheme&) const = default;
};

// "int4, groups of 128 columns, zero points (GPTQ)": for logs and errors.
std::string Describe(const WeightScheme& scheme);

// A format by the name that its authors use: "pack-quantized", "gptq", ... It must be a row of
// weight_scheme.cc.
const WeightScheme& FormatRow(absl::string_view name);

struct ModuleShape {
  int64_t rows = 0;     // output features
  int64_t columns = 0;  // input features
  // Modules stacked in one tensor, as its first dimension; 0: the module is not stacked.
  int64_t num_experts = 0;

  bool operator==(const ModuleShape&) const = default;
};

// Rows and columns of the grid of groups.
struct GroupGrid {
  int64_t rows = 0;
  int64_t columns = 0;
  bool operator==(const GroupGrid&) const = default;
};
GroupGrid GridOf(const WeightScheme& scheme, const ModuleShape& shape);

// INVALID_ARGUMENT, beginning with "module <name>", when no weight of this shape can be in the
// scheme: its groups do not divide the shape, or the shape does not fill words.
absl::Status CheckFits(const WeightScheme& scheme, const ModuleShape& shape,
                       absl::string_view module);

// A tensor that a module has in the checkpoint.
struct StoredTensor {
  Plane plane;
  std::vector<absl::string_view> suffixes;   // any one of them
  std::vector<absl::string_view> dtypes;     // as safetensors names them; any one of them
  std::vector<std::vector<int64_t>> shapes;  // any one of them
  bool optional = false;
};

// All tensors of a module, values first. The shape must fit.
std::vector<StoredTensor> StoredTensors(const WeightScheme& scheme, const ModuleShape& shape);

}  // namespace quire

#include "engine/model/quantization/weight_scheme.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/base/check.h"
#include "kernels/base/types.h"

namespace quire {
namespace {

// How a packing lays out its values and zero points.
struct PackingRow {
  WeightPacking packing;
  absl::string_view name;
  absl::string_view value_dtypes;
  int word_bits;                // of what holds the fields; 0: a value is an element
  bool transposed;              // values, scales and zero points are [columns, rows]
  bool packed_along_rows;       // the fields of a word are rows of the weight, else columns
  absl::string_view zero_type;  // words hold the zero points of neighbouring rows; I8 holds one
};

constexpr PackingRow kPackings[] = {
    {WeightPacking::kFloat, "float", "F32|BF16|F16", 0, false, false, ""},
    {WeightPacking::kFloat8, "float8 e4m3", "F8_E4M3", 0, false, false, ""},
    {WeightPacking::kFloat4, "float4 e2m1", "U8|I8", 8, false, false, ""},
    {WeightPacking::kInt8, "int8", "I8", 0, false, false, "I8"},
    {WeightPacking::kPackedRows, "pack-quantized", "I32", 32, false, false, "I32"},
    {WeightPacking::kGptq, "GPTQ", "I32", 32, true, false, "I32"},
    {WeightPacking::kAwq, "AWQ", "I32", 32, true, true, "I32"},
};

const PackingRow& RowOf(WeightPacking packing) {
  const PackingRow& row = kPackings[static_cast<size_t>(packing)];
  CHECK(row.packing == packing);
  return row;
}

struct NamedFormat {
  absl::string_view name;
  WeightScheme scheme;
};

// The code that reads the configuration sets bits, groups, zero points and activations, where the
// format leaves them open.
constexpr NamedFormat kFormats[] = {
    {"pack-quantized",
     {.packing = WeightPacking::kPackedRows,
      .bits = 4,
      .group_rows = 1,
      .group_columns = 128,
      .suffixes = {".weight_packed", ".weight_scale", ".weight_zero_point", "", ".weight_g_idx",
                   ".weight_shape", ".input_scale"}}},
    {"int-quantized",
     {.packing = WeightPacking::kInt8,
      .bits = 8,
      .group_rows = 1,
      .suffixes = {".weight", ".weight_scale", ".weight_zero_point", "", "", "", ".input_scale"}}},
    {"float-quantized",
     {.packing = WeightPacking::kFloat8,
      .bits = 8,
      .suffixes = {".weight", ".weight_scale", "", "", "", "", ".input_scale"}}},
    {"nvfp4-pack-quantized",
     {.packing = WeightPacking::kFloat4,
      .bits = 4,
      .group_rows = 1,
      .group_columns = 16,
      .scale_type = ScaleType::kE4M3,
      .global_scale = GlobalScale::kDivisor,
      .suffixes = {".weight_packed", ".weight_scale", "", ".weight_global_scale", "", "",
                   ".input_global_scale"}}},
    {"mxfp4-pack-quantized",
     {.packing = WeightPacking::kFloat4,
      .bits = 4,
      .group_rows = 1,
      .group_columns = 32,
      .scale_type = ScaleType::kE8M0,
      .suffixes = {".weight_packed", ".weight_scale", "", "", "", "", ".input_global_scale"}}},
    {"mxfp8-quantized",
     {.packing = WeightPacking::kFloat8,
      .bits = 8,
      .group_rows = 1,
      .group_columns = 32,
      .scale_type = ScaleType::kE8M0,
      .suffixes = {".weight", ".weight_scale", "", "", "", "", ".input_scale"}}},
    // DeepSeek's: the name says inverse, and it is a factor all the same.
    {"fp8-block",
     {.packing = WeightPacking::kFloat8,
      .bits = 8,
      .group_rows = 128,
      .group_columns = 128,
      .suffixes = {".weight", ".weight_scale_inv|.weight_scale", "", "", "", "",
                   ".input_scale|.activation_scale"}}},
    {"fp8-tensor",
     {.packing = WeightPacking::kFloat8,
      .bits = 8,
      .suffixes = {".weight", ".weight_scale|.weight_scale_inv", "", "", "", "",
                   ".input_scale|.activation_scale"}}},
    {"modelopt-nvfp4",
     {.packing = WeightPacking::kFloat4,
      .bits = 4,
      .group_rows = 1,
      .group_columns = 16,
      .scale_type = ScaleType::kE4M3,
      .global_scale = GlobalScale::kFactor,
      .suffixes = {".weight", ".weight_scale", "", ".weight_scale_2", "", "", ".input_scale"}}},
    {"gptq",
     {.packing = WeightPacking::kGptq,
      .bits = 4,
      .group_rows = 1,
      .group_columns = 128,
      .zero_points = true,
      .zero_offset = 1,
      .suffixes = {".qweight", ".scales", ".qzeros", "", ".g_idx", "", ""}}},
    {"awq",
     {.packing = WeightPacking::kAwq,
      .bits = 4,
      .group_rows = 1,
      .group_columns = 128,
      .zero_points = true,
      .suffixes = {".qweight", ".scales", ".qzeros", "", "", "", ""}}},
    // gpt-oss: the experts of a layer are one parameter, not modules.
    {"gpt-oss-mxfp4",
     {.packing = WeightPacking::kFloat4,
      .bits = 4,
      .group_rows = 1,
      .group_columns = 32,
      .scale_type = ScaleType::kE8M0,
      .suffixes = {"_blocks", "_scales", "", "", "", "", ""}}},
};

absl::string_view ScaleDTypes(ScaleType type) {
  switch (type) {
    case ScaleType::kFloat:
      return "F32|BF16|F16";
    case ScaleType::kE4M3:
      return "F8_E4M3";
    case ScaleType::kE8M0:
      return "U8|F8_E8M0";
  }
  return "";
}

absl::string_view NameOf(ActivationScheme activations) {
  switch (activations) {
    case ActivationScheme::kNone:
      return "";
    case ActivationScheme::kE4M3PerToken:
      return "float8 per token";
    case ActivationScheme::kE4M3PerGroup:
      return "float8 per group";
    case ActivationScheme::kE4M3PerTensor:
      return "float8 per tensor";
    case ActivationScheme::kInt8PerToken:
      return "int8 per token";
  }
  return "";
}

using Shapes = std::vector<std::vector<int64_t>>;

// The shapes of a number that belongs to the whole weight.
Shapes ScalarShapes() { return {{}, {1}, {1, 1}}; }

Shapes ValueShapes(const WeightScheme& scheme, const ModuleShape& shape) {
  const PackingRow& row = RowOf(scheme.packing);
  int64_t rows = shape.rows;
  int64_t columns = shape.columns;
  if (row.word_bits != 0) {
    int64_t& packed = row.packed_along_rows ? rows : columns;
    packed = CeilDiv<int64_t>(packed * scheme.bits, row.word_bits);
  }
  if (row.transposed) return {{columns, rows}};
  Shapes shapes = {{rows, columns}};
  if (scheme.packing == WeightPacking::kFloat4 && scheme.group_columns != 0) {
    // gpt-oss has the bytes of a group as a dimension of their own.
    const int64_t group_bytes = scheme.group_columns / 2;
    shapes.push_back({rows, columns / group_bytes, group_bytes});
  }
  return shapes;
}

Shapes ScaleShapes(const WeightScheme& scheme, const ModuleShape& shape) {
  const GroupGrid grid = GridOf(scheme, shape);
  if (RowOf(scheme.packing).transposed) return {{grid.columns, grid.rows}};
  if (scheme.group_rows == 0 && scheme.group_columns == 0) return ScalarShapes();
  Shapes shapes = {{grid.rows, grid.columns}};
  if (grid.columns == 1) shapes.push_back({grid.rows});
  // ModelOpt's blocks.
  if (scheme.group_rows > 1) shapes.push_back({grid.rows, 1, grid.columns, 1});
  return shapes;
}

Shapes ZeroPointShapes(const WeightScheme& scheme, const ModuleShape& shape) {
  const PackingRow& row = RowOf(scheme.packing);
  GroupGrid grid = GridOf(scheme, shape);
  if (row.zero_type != "I32") return ScaleShapes(scheme, shape);
  grid.rows = CeilDiv<int64_t>(grid.rows * scheme.bits, 32);
  if (row.transposed) return {{grid.columns, grid.rows}};
  return {{grid.rows, grid.columns}};
}

// Some writers store the zero points of a symmetric weight, too. GPTQ's writers do; those of packed
// rows may store them packed or not.
template <typename Add>
void AddNeedlessZeroPoints(const WeightScheme& scheme, const ModuleShape& shape, Add add) {
  const PackingRow& row = RowOf(scheme.packing);
  const bool may_be_unpacked = scheme.packing == WeightPacking::kPackedRows;
  Shapes shapes = ZeroPointShapes(scheme, shape);
  if (may_be_unpacked) {
    for (std::vector<int64_t>& dims : ScaleShapes(scheme, shape)) shapes.push_back(std::move(dims));
  }
  add(Plane::kZeroPoints, may_be_unpacked ? "I32|I8" : row.zero_type, std::move(shapes), true);
}

// The same tensor for all experts: they are its first dimension.
Shapes Stacked(Shapes shapes, int64_t num_experts) {
  if (num_experts == 0) return shapes;
  for (std::vector<int64_t>& shape : shapes) shape.insert(shape.begin(), num_experts);
  return shapes;
}

}  // namespace

std::string Describe(const WeightScheme& scheme) {
  if (!scheme.quantized()) return "not quantized";
  std::string text = scheme.IsInteger() ? absl::StrCat("int", scheme.bits)
                                        : std::string(RowOf(scheme.packing).name);
  if (scheme.group_rows > 1) {
    absl::StrAppend(&text, ", blocks of ", scheme.group_rows, " x ", scheme.group_columns);
  } else if (scheme.group_columns > 0) {
    absl::StrAppend(&text, ", groups of ", scheme.group_columns, " columns");
  } else {
    absl::StrAppend(&text, scheme.group_rows == 1 ? ", a scale a row" : ", one scale");
  }
  if (scheme.zero_points) text += ", zero points";
  if (scheme.ordered) text += ", ordered columns";
  if (scheme.IsInteger()) absl::StrAppend(&text, " (", RowOf(scheme.packing).name, ")");
  if (scheme.activations != ActivationScheme::kNone) {
    absl::StrAppend(&text, ", activations ", NameOf(scheme.activations));
  }
  return text;
}

const WeightScheme& FormatRow(absl::string_view name) {
  for (const NamedFormat& format : kFormats) {
    if (format.name == name) return format.scheme;
  }
  CHECK(false) << "no format " << name;
  return kFormats[0].scheme;
}

GroupGrid GridOf(const WeightScheme& scheme, const ModuleShape& shape) {
  return {scheme.group_rows == 0 ? 1 : CeilDiv(shape.rows, scheme.group_rows),
          scheme.group_columns == 0 ? 1 : CeilDiv(shape.columns, scheme.group_columns)};
}

absl::Status CheckFits(const WeightScheme& scheme, const ModuleShape& shape,
                       absl::string_view module) {
  const auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("module ", module, ": ", what, " (",
                                                   Describe(scheme), "; the weight is ", shape.rows,
                                                   " x ", shape.columns, ")"));
  };
  CHECK(shape.rows > 0 && shape.columns > 0);
  if (!scheme.quantized()) return absl::OkStatus();
  // Only blocks may be cut off by the edge.
  if (scheme.group_rows <= 1 && scheme.group_columns > 0 &&
      shape.columns % scheme.group_columns != 0) {
    return error("the group size does not divide its input features");
  }
  const PackingRow& row = RowOf(scheme.packing);
  if (scheme.packing == WeightPacking::kFloat4 && shape.columns % 2 != 0) {
    return error("bytes of two values need an even number of input features");
  }
  if (row.transposed && 32 % scheme.bits != 0) return error("values do not fill words");
  if (row.transposed && (shape.rows * scheme.bits) % 32 != 0) {
    return error("words do not divide its output features");
  }
  if (scheme.packing == WeightPacking::kGptq && (shape.columns * scheme.bits) % 32 != 0) {
    return error("words do not divide its input features");
  }
  return absl::OkStatus();
}

std::vector<StoredTensor> StoredTensors(const WeightScheme& scheme, const ModuleShape& shape) {
  std::vector<StoredTensor> tensors;
  const auto add = [&](Plane plane, absl::string_view dtypes, Shapes shapes, bool optional) {
    const absl::string_view suffix = scheme.suffix(plane);
    if (suffix.empty()) return;
    tensors.push_back({plane, absl::StrSplit(suffix, '|'), absl::StrSplit(dtypes, '|'),
                       Stacked(std::move(shapes), shape.num_experts), optional});
  };
  const PackingRow& row = RowOf(scheme.packing);
  add(Plane::kValues, row.value_dtypes, ValueShapes(scheme, shape), false);
  if (!scheme.quantized()) return tensors;
  add(Plane::kScales, ScaleDTypes(scheme.scale_type), ScaleShapes(scheme, shape), false);
  if (scheme.zero_points) {
    add(Plane::kZeroPoints, row.zero_type, ZeroPointShapes(scheme, shape), false);
  } else if (scheme.IsInteger()) {
    AddNeedlessZeroPoints(scheme, shape, add);
  }
  add(Plane::kGlobalScale, "F32|BF16|F16", ScalarShapes(), false);
  // Also there where columns are in order, and then says so.
  add(Plane::kOrder, "I32|I64", {{shape.columns}}, !scheme.ordered);
  add(Plane::kShape, "I64|I32", {{2}}, true);
  add(Plane::kInputScale, "F32|BF16|F16", ScalarShapes(), true);
  return tensors;
}

}  // namespace quire

// The tensors of a quantized module: whatever their dtypes, shapes and values, they are refused or
// make finite values, and the codes that a device keeps of them stand for the same ones.
// Input: bytes that choose the format and the weight's shape, bytes that choose among what its
// tensors may be and change one of them (kChoices in all), and what is repeated to fill them.
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/weights/device_format.h"
#include "engine/model/weights/quantized_module.h"
#include "kernels/base/check.h"
#include "kernels/packed_codes.h"
#include "tests/engine/checkpoint/test_files.h"
#include "tests/fuzz/target.h"

namespace quire::fuzz {
namespace {

constexpr std::array<const char*, 11> kFormats = {
    "pack-quantized",       "gptq",           "awq",
    "int-quantized",        "fp8-block",      "float-quantized",
    "nvfp4-pack-quantized", "fp8-tensor",     "modelopt-nvfp4",
    "mxfp4-pack-quantized", "mxfp8-quantized"};
constexpr std::array<int64_t, 6> kGroups = {32, 0, 8, 16, 64, 3};
constexpr std::array<const char*, 9> kTypes = {"F32", "BF16", "F16", "F8_E4M3", "F8_E8M0",
                                               "U8",  "I8",   "I32", "I64"};
constexpr size_t kChoices = 11;

int64_t BytesOf(absl::string_view dtype) {
  if (dtype == "I64") return 8;
  if (dtype == "F32" || dtype == "I32") return 4;
  return dtype == "BF16" || dtype == "F16" ? 2 : 1;
}

template <typename List>
auto& Choose(List& list, uint8_t byte) {
  return list[byte % list.size()];
}

// As the readers of configurations make it.
WeightScheme TakeScheme(InputReader& input) {
  WeightScheme scheme = FormatRow(Choose(kFormats, input.TakeByte()));
  const uint8_t bits = input.TakeByte();
  if (scheme.packing == WeightPacking::kPackedRows) scheme.bits = 2 + bits % 7;
  if (scheme.packing == WeightPacking::kGptq) scheme.bits = bits % 2 == 0 ? 4 : 8;
  const int64_t group = Choose(kGroups, input.TakeByte());
  if (scheme.IsInteger() && group != 3) scheme.group_columns = group;
  if (scheme.group_rows > 1) scheme.group_rows = scheme.group_columns = group == 0 ? 128 : group;
  const uint8_t flags = input.TakeByte();
  if (scheme.IsInteger()) scheme.zero_points = flags % 2 != 0;
  if (!scheme.suffix(Plane::kOrder).empty()) scheme.ordered = flags / 2 % 2 != 0;
  if (scheme.packing == WeightPacking::kGptq) scheme.zero_offset = flags / 4 % 2;
  if (flags / 8 % 2 != 0) scheme.activations = ActivationScheme::kE4M3PerTensor;
  return scheme;
}

struct FileTensor {
  std::string dtype;
  std::vector<int64_t> shape;
};

// Takes the module's tensors from the input; one of them may be left out or changed.
std::map<std::string, FileTensor> TakeTensors(const WeightScheme& scheme, const ModuleShape& shape,
                                              InputReader& input) {
  const uint8_t optional = input.TakeByte(), alternative = input.TakeByte();
  const uint8_t changed = input.TakeByte(), change = input.TakeByte(), to = input.TakeByte();
  std::map<std::string, FileTensor> tensors;
  if (!CheckFits(scheme, shape, "m").ok()) return tensors;
  int index = 0;
  for (const StoredTensor& stored : StoredTensors(scheme, shape)) {
    const bool is_changed = changed == index++;
    if (stored.optional && optional >> (index % 8) % 2 == 0) continue;
    FileTensor tensor = {std::string(Choose(stored.dtypes, alternative)),
                         Choose(stored.shapes, alternative / 4)};
    if (is_changed && change % 4 == 0) continue;
    if (is_changed && change % 4 == 1) tensor.dtype = Choose(kTypes, to);
    if (is_changed && change % 4 == 2 && !tensor.shape.empty()) Choose(tensor.shape, to) = to % 16;
    if (is_changed && change % 4 == 3) tensor.shape.push_back(to % 3);
    tensors[absl::StrCat("m", stored.suffixes[0])] = tensor;
  }
  return tensors;
}

// With what the input has, again and again; every float32 of it that is not a number is refused.
std::string FileOf(const std::map<std::string, FileTensor>& tensors, std::string_view filling) {
  std::vector<std::string> entries;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    int64_t size = BytesOf(tensor.dtype);
    for (const int64_t extent : tensor.shape) size *= extent;
    const size_t begin = data.size();
    for (int64_t i = 0; i < size; ++i) {
      data.push_back(filling.empty() ? '\1' : filling[i % filling.size()]);
    }
    entries.push_back(absl::StrCat("\"", name, "\":{\"dtype\":\"", tensor.dtype, "\",\"shape\":[",
                                   absl::StrJoin(tensor.shape, ","), "],\"data_offsets\":[", begin,
                                   ",", data.size(), "]}"));
  }
  return SafetensorsBytes(absl::StrCat("{", absl::StrJoin(entries, ","), "}"), data);
}

absl::StatusOr<std::vector<float>> ReadValues(const QuantizedModule& module,
                                              const ModuleShape& shape) {
  constexpr int64_t kMaxRows = 5;
  std::vector<float> values, piece(kMaxRows * shape.columns);
  absl::Status status = module.Read(
      kMaxRows, [&]() -> absl::StatusOr<float*> { return piece.data(); },
      [&](int64_t first_row, int64_t num_rows) {
        CHECK_EQ(first_row * shape.columns, static_cast<int64_t>(values.size()));
        values.insert(values.end(), piece.begin(), piece.begin() + num_rows * shape.columns);
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  CHECK_EQ(static_cast<int64_t>(values.size()), shape.rows * shape.columns);
  return values;
}

float ScaleOf(const WeightFormat& format, const QuantizedRows& rows, int64_t row, int64_t at) {
  if (format.scale == ScaleValue::kFloat32) return static_cast<const float*>(rows.scales)[at];
  const uint8_t code = static_cast<const uint8_t*>(rows.scales)[at];
  if (format.scale == ScaleValue::kPowerOfTwo) return E8M0Value(code);
  return E4M3Value(code) * rows.row_scales[row];
}

float ValueOf(const WeightFormat& format, const QuantizedRows& rows, uint8_t code, int64_t group) {
  if (format.value == WeightValue::kFloat8) return E4M3Value(code);
  if (format.value == WeightValue::kFloat4) return E2M1Value(code);
  const int bits = BitsOf(format.value);
  CHECK_LT(int{code}, 1 << bits);
  return static_cast<float>(code -
                            (format.zero_points ? rows.zero_points[group] : 1 << (bits - 1)));
}

// The codes of a device stand for `values`.
void CheckCodes(const QuantizedModule& module, const WeightFormat& format, const ModuleShape& shape,
                const std::vector<float>& values) {
  const int64_t num_groups = NumGroups(format, shape.columns);
  const int64_t group_columns = format.group_columns == 0 ? shape.columns : format.group_columns;
  const absl::Status status =
      module.ReadCodes(format, 5, [&](int64_t first_row, const QuantizedRows& rows) {
        for (int64_t i = 0; i < rows.num_rows * shape.columns; ++i) {
          const int64_t row = i / shape.columns, place = i % shape.columns;
          const int64_t column = format.ordered ? rows.order[place] : place;
          CHECK(column >= 0 && column < shape.columns);
          const int64_t group = row * num_groups + place / group_columns;
          const uint8_t code = CodeAt(
              format.value, rows.codes + row * CodeRowBytes(format.value, shape.columns), place);
          const float value =
              ValueOf(format, rows, code, group) * ScaleOf(format, rows, row, group);
          CHECK_EQ(value, values[(first_row + row) * shape.columns + column]);
        }
        return absl::OkStatus();
      });
  CHECK(status.ok()) << status;
}

void ExpectNamed(const absl::Status& status) {
  CHECK(absl::IsInvalidArgument(status)) << status;
  CHECK(status.message().find('m') != absl::string_view::npos) << status;
}

std::string Seed(std::initializer_list<int> choices, const std::string& filling) {
  std::string seed;
  for (const int choice : choices) seed.push_back(static_cast<char>(choice));
  seed.resize(kChoices, '\0');
  return seed + filling;
}

}  // namespace

std::vector<std::string> Seeds() {
  const std::string scale(4, '\x3c');  // a number in every type of scales
  std::vector<std::string> seeds;
  for (int format = 0; format < static_cast<int>(kFormats.size()); ++format) {
    for (const int flags : {0, 1, 3, 12}) {
      seeds.push_back(Seed({format, 2, 0, flags, 31, 63, 255, 0, 255}, scale));
    }
  }
  // Orders of two groups, of one size and of two, and zero points in the middle.
  const std::string zero(4, '\0'), one("\1\0\0\0", 4);
  seeds.push_back(Seed({1, 0, 0, 2, 31, 63, 255, 0, 255}, zero + one));
  seeds.push_back(Seed({1, 0, 0, 0, 31, 63, 255, 0, 255}, zero + zero + zero + one + zero));
  seeds.push_back(Seed({0, 2, 0, 0, 31, 63, 255, 0, 255}, "\x88"));
  return seeds;
}

std::vector<std::string> Dictionary() {
  return {std::string(4, '\0'), std::string("\1\0\0\0", 4), std::string("\0\0\200\77", 4),
          std::string(4, '\xff'), std::string(4, '\x77')};
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;  // NOLINT(build/namespaces)
  fuzz::InputReader input(data, size);
  const WeightScheme scheme = fuzz::TakeScheme(input);
  const ModuleShape shape = {1 + input.TakeByte() % 64, 1 + input.TakeByte() % 128, 0};
  const auto tensors = fuzz::TakeTensors(scheme, shape, input);
  static const TempFolder& folder = *new TempFolder;
  folder.Write("model.safetensors", fuzz::FileOf(tensors, input.rest()));
  const auto checkpoint = Checkpoint::Open(folder.path());
  if (!checkpoint.ok()) return 0;  // shapes with too much or nothing in them
  const auto module = QuantizedModule::Find(scheme, shape, "m", *checkpoint);
  if (!module.ok()) {
    fuzz::ExpectNamed(module.status());
    return 0;
  }
  const auto order = module->ReadOrder();
  const auto values = fuzz::ReadValues(*module, shape);
  if (!values.ok()) {
    fuzz::ExpectNamed(values.status());
    return 0;
  }
  ++fuzz::num_accepted;
  for (const float value : *values) CHECK(std::isfinite(value)) << value;
  CHECK(order.ok()) << order.status();
  if (!order->even) return 0;
  WeightFormat format = DeviceFormatOf(scheme).weight;
  format.ordered = !order->columns.empty();
  fuzz::CheckCodes(*module, format, shape, *values);
  return 0;
}

#include "engine/model/quantization/weight_scheme.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/quantization/module_tensors.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// "suffix dtype,dtype [shape][shape] ?"
std::vector<std::string> Shown(const WeightScheme& scheme, const ModuleShape& shape) {
  std::vector<std::string> lines;
  for (const StoredTensor& tensor : StoredTensors(scheme, shape)) {
    std::string line = absl::StrCat(absl::StrJoin(tensor.suffixes, "|"), " ",
                                    absl::StrJoin(tensor.dtypes, ","), " ");
    for (const auto& dims : tensor.shapes)
      absl::StrAppend(&line, "[", absl::StrJoin(dims, ","), "]");
    lines.push_back(line + (tensor.optional ? " ?" : ""));
  }
  return lines;
}

TEST(WeightScheme, APlainModuleHasAWeight) {
  EXPECT_THAT(Shown(WeightScheme(), {3, 5}), ElementsAre(".weight F32,BF16,F16 [3,5]"));
  EXPECT_FALSE(WeightScheme().quantized());
}

TEST(WeightScheme, PackQuantized) {
  WeightScheme scheme = FormatRow("pack-quantized");
  EXPECT_THAT(
      Shown(scheme, {10, 256}),
      ElementsAre(".weight_packed I32 [10,32]", ".weight_scale F32,BF16,F16 [10,2]",
                  ".weight_zero_point I32,I8 [2,2][10,2] ?", ".weight_g_idx I32,I64 [256] ?",
                  ".weight_shape I64,I32 [2] ?", ".input_scale F32,BF16,F16 [][1][1,1] ?"));
  // Three bits are dense: 256 fields fill 24 words. Zero points: 10 fields of 3 bits in a word.
  scheme.bits = 3;
  scheme.zero_points = true;
  scheme.ordered = true;
  EXPECT_THAT(Shown(scheme, {10, 256}),
              ElementsAre(".weight_packed I32 [10,24]", ".weight_scale F32,BF16,F16 [10,2]",
                          ".weight_zero_point I32 [1,2]", ".weight_g_idx I32,I64 [256]",
                          ".weight_shape I64,I32 [2] ?", ".input_scale F32,BF16,F16 [][1][1,1] ?"));
  scheme.group_columns = 0;
  EXPECT_EQ(Shown(scheme, {10, 256})[1], ".weight_scale F32,BF16,F16 [10,1][10]");
}

TEST(WeightScheme, Float8) {
  EXPECT_THAT(Shown(FormatRow("fp8-block"), {300, 129}),
              ElementsAre(".weight F8_E4M3 [300,129]",
                          ".weight_scale_inv|.weight_scale F32,BF16,F16 [3,2][3,1,2,1]",
                          ".input_scale|.activation_scale F32,BF16,F16 [][1][1,1] ?"));
  WeightScheme scheme = FormatRow("fp8-tensor");
  scheme.activations = ActivationScheme::kE4M3PerTensor;
  EXPECT_THAT(Shown(scheme, {4, 8}),
              ElementsAre(".weight F8_E4M3 [4,8]",
                          ".weight_scale|.weight_scale_inv F32,BF16,F16 [][1][1,1]",
                          ".input_scale|.activation_scale F32,BF16,F16 [][1][1,1] ?"));
}

TEST(WeightScheme, GptqAndAwqAreTransposed) {
  EXPECT_THAT(Shown(FormatRow("gptq"), {16, 256}),
              ElementsAre(".qweight I32 [32,16]", ".scales F32,BF16,F16 [2,16]",
                          ".qzeros I32 [2,2]", ".g_idx I32,I64 [256] ?"));
  WeightScheme symmetric = FormatRow("gptq");
  symmetric.zero_points = false;
  EXPECT_EQ(Shown(symmetric, {16, 256})[2], ".qzeros I32 [2,2] ?");
  EXPECT_THAT(
      Shown(FormatRow("awq"), {16, 256}),
      ElementsAre(".qweight I32 [256,2]", ".scales F32,BF16,F16 [2,16]", ".qzeros I32 [2,2]"));
}

TEST(WeightScheme, Float4) {
  EXPECT_THAT(Shown(FormatRow("nvfp4-pack-quantized"), {4, 64}),
              ElementsAre(".weight_packed U8,I8 [4,32][4,4,8]", ".weight_scale F8_E4M3 [4,4]",
                          ".weight_global_scale F32,BF16,F16 [][1][1,1]",
                          ".input_global_scale F32,BF16,F16 [][1][1,1] ?"));
  EXPECT_EQ(Shown(FormatRow("modelopt-nvfp4"), {4, 64})[2],
            ".weight_scale_2 F32,BF16,F16 [][1][1,1]");
  // The experts of gpt-oss: a group's bytes are a dimension.
  EXPECT_THAT(Shown(FormatRow("gpt-oss-mxfp4"), {4, 64, 3}),
              ElementsAre("_blocks U8,I8 [3,4,32][3,4,2,16]", "_scales U8,F8_E8M0 [3,4,2]"));
}

// The same family has experts in one tensor in one checkpoint, and one by one in another.
TEST(WeightScheme, StackedExpertsAreAFirstDimension) {
  EXPECT_EQ(Shown(FormatRow("fp8-block"), {128, 256, 7})[1],
            ".weight_scale_inv|.weight_scale F32,BF16,F16 [7,1,2][7,1,1,2,1]");
  EXPECT_EQ(Shown(FormatRow("fp8-tensor"), {128, 256, 7})[1],
            ".weight_scale|.weight_scale_inv F32,BF16,F16 [7][7,1][7,1,1]");
  EXPECT_EQ(Shown(FormatRow("fp8-block"), {128, 256})[0], ".weight F8_E4M3 [128,256]");
}

TEST(WeightScheme, GroupsMustDivideButBlocksNeedNot) {
  const auto check = [](absl::string_view format, int64_t rows, int64_t columns) {
    return std::string(CheckFits(FormatRow(format), {rows, columns}, "a.b").message());
  };
  EXPECT_EQ(check("fp8-block", 3, 129), "");
  EXPECT_EQ(check("pack-quantized", 3, 256), "");
  for (const char* format : {"pack-quantized", "gptq", "awq", "nvfp4-pack-quantized",
                             "mxfp4-pack-quantized", "mxfp8-quantized"}) {
    EXPECT_THAT(check(format, 8, 200), HasSubstr("module a.b: the group size does not divide"));
  }
  EXPECT_THAT(check("gptq", 12, 256), HasSubstr("output features"));
  EXPECT_THAT(check("awq", 12, 256), HasSubstr("output features"));
}

TEST(WeightScheme, IsDescribed) {
  EXPECT_EQ(Describe(WeightScheme()), "not quantized");
  EXPECT_EQ(Describe(FormatRow("fp8-block")), "float8 e4m3, blocks of 128 x 128");
  EXPECT_EQ(Describe(FormatRow("fp8-tensor")), "float8 e4m3, one scale");
  EXPECT_EQ(Describe(FormatRow("int-quantized")), "int8, a scale a row (int8)");
  WeightScheme dynamic = FormatRow("fp8-tensor");
  dynamic.activations = ActivationScheme::kE4M3PerToken;
  EXPECT_EQ(Describe(dynamic), "float8 e4m3, one scale, activations float8 per token");
  EXPECT_EQ(Describe(FormatRow("gptq")), "int4, groups of 128 columns, zero points (GPTQ)");
}

class TestTensors {
 public:
  void Add(const std::string& name, const std::string& dtype, std::vector<int64_t> shape) {
    tensors_[name] = {name, dtype, std::nullopt, std::move(shape)};
    entries_[name] = {nullptr, &tensors_[name]};
  }
  absl::StatusOr<ModuleTensors> Find(const WeightScheme& scheme, const ModuleShape& shape) const {
    return FindModuleTensors(scheme, shape, "m",
                             [&](absl::string_view name) -> const Checkpoint::Entry* {
                               const auto it = entries_.find(std::string(name));
                               return it == entries_.end() ? nullptr : &it->second;
                             });
  }

 private:
  std::map<std::string, SafetensorsTensor> tensors_;
  std::map<std::string, Checkpoint::Entry> entries_;
};

TEST(ModuleTensors, AreFoundByAnyOfTheirNames) {
  TestTensors tensors;
  tensors.Add("m.weight", "F8_E4M3", {4, 8});
  tensors.Add("m.weight_scale_inv", "BF16", {});
  const auto found = tensors.Find(FormatRow("fp8-tensor"), {4, 8});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)[static_cast<size_t>(Plane::kScales)]->tensor->name, "m.weight_scale_inv");
  EXPECT_EQ((*found)[static_cast<size_t>(Plane::kInputScale)], nullptr);
}

TEST(ModuleTensors, ErrorsNameTheTensor) {
  TestTensors tensors;
  const auto error = [&](const WeightScheme& scheme) {
    const absl::Status status = tensors.Find(scheme, {4, 8}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  const WeightScheme fp8 = FormatRow("fp8-tensor");
  EXPECT_THAT(error(fp8), HasSubstr("lacks the tensor m.weight"));
  // What a module that is not quantized has, although the configuration says that it is.
  tensors.Add("m.weight", "BF16", {4, 8});
  EXPECT_THAT(error(fp8), HasSubstr("m.weight has dtype BF16"));
  EXPECT_TRUE(tensors.Find(WeightScheme(), {4, 8}).ok());
  tensors.Add("m.weight", "F8_E4M3", {8, 4});
  EXPECT_THAT(error(fp8), HasSubstr("m.weight has shape [8, 4]"));
  EXPECT_THAT(error(WeightScheme()), HasSubstr("m.weight has dtype F8_E4M3"));
  tensors.Add("m.weight", "F8_E4M3", {4, 8});
  EXPECT_THAT(error(fp8), HasSubstr(".weight_scale or .weight_scale_inv"));
  tensors.Add("m.weight_scale", "F32", {4});
  EXPECT_THAT(error(fp8), HasSubstr("m.weight_scale has shape [4]"));
  tensors.Add("m.weight_scale", "F64", {});
  EXPECT_THAT(error(fp8), HasSubstr("m.weight_scale has dtype F64"));
  EXPECT_THAT(error(FormatRow("gptq")), HasSubstr("module m: the group size"));
}

}  // namespace
}  // namespace quire

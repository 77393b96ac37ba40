// Checkpoints with fused and with split projections, in the model family's own form and in others:
// the same weights make the same model, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "engine/model/weights.h"
#include "kernels/device_facts.h"
#include "tests/engine/checkpoint/test_files.h"
#include "tests/engine/model/sequence_runner.h"
#include "tests/engine/model/tiny_weights.h"

namespace quire {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kGptq[] = R"(, "quantization_config": {"quant_method": "gptq", "bits": 4,
    "group_size": 32, "sym": true, "desc_act": true})";
constexpr char kAwq[] = R"(, "quantization_config": {"quant_method": "awq", "bits": 4,
    "group_size": 32, "zero_point": true, "version": "gemm"})";

std::string ConfigOf(absl::string_view family, absl::string_view more = "") {
  return absl::StrCat(R"({"model_type": ")", family, R"(", "vocab_size": 96, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "tie_word_embeddings": false)",
                      more, "}");
}

struct Part {
  absl::string_view name;  // "self_attn.q_proj"
  int64_t num_rows;
};
constexpr Part kQkv[] = {
    {"self_attn.q_proj", 64}, {"self_attn.k_proj", 32}, {"self_attn.v_proj", 32}};
constexpr Part kGateUp[] = {{"mlp.gate_proj", 96}, {"mlp.up_proj", 96}};

// The part of a module's tensor for `num_rows` of the module's `all_rows` rows, which lie along the
// dimension `axis`.
FileTensor RowsOf(const FileTensor& tensor, size_t axis, int64_t first_row, int64_t num_rows,
                  int64_t all_rows) {
  FileTensor rows = {"", tensor.dtype, tensor.shape, ""};
  rows.shape[axis] = tensor.shape[axis] * num_rows / all_rows;
  const size_t num_slices = axis == 0 ? 1 : tensor.shape[0];
  const size_t slice_bytes = tensor.data.size() / num_slices;
  for (size_t i = 0; i < num_slices; ++i) {
    rows.data += tensor.data.substr(i * slice_bytes + slice_bytes * first_row / all_rows,
                                    slice_bytes * num_rows / all_rows);
  }
  return rows;
}

// Replaces the tensors of the fused module by those of its parts. GPTQ and AWQ keep weights
// transposed; g_idx is of the columns, which all parts share.
void Split(const std::string& layer, const std::string& fused, absl::Span<const Part> parts,
           std::vector<FileTensor>* tensors) {
  int64_t all_rows = 0;
  for (const Part& part : parts) all_rows += part.num_rows;
  std::vector<FileTensor> made;
  for (const FileTensor& tensor : *tensors) {
    absl::string_view kind = tensor.name;
    if (!absl::ConsumePrefix(&kind, absl::StrCat(layer, fused))) {
      made.push_back(tensor);
      continue;
    }
    const size_t axis = kind == ".weight" || kind == ".bias" ? 0 : 1;
    int64_t first_row = 0;
    for (const Part& part : parts) {
      made.push_back(kind == ".g_idx" ? tensor
                                      : RowsOf(tensor, axis, first_row, part.num_rows, all_rows));
      made.back().name = absl::StrCat(layer, part.name, kind);
      first_row += part.num_rows;
    }
  }
  *tensors = std::move(made);
}

constexpr int kNumForms = 16;

// Bit 2i of `form` splits the projections of layer i's attention, bit 2i + 1 those of its MLP.
std::vector<FileTensor> InForm(int form, std::vector<FileTensor> tensors) {
  for (int i = 0; i < 2; ++i) {
    const std::string layer = absl::StrCat("model.layers.", i, ".");
    if ((form >> (2 * i) & 1) != 0) Split(layer, "self_attn.qkv_proj", kQkv, &tensors);
    if ((form >> (2 * i + 1) & 1) != 0) Split(layer, "mlp.gate_up_proj", kGateUp, &tensors);
  }
  return tensors;
}

class FusedWeightsTest : public testing::Test {
 protected:
  void SetUp() override { MakeTensors(""); }

  // All fused, as Phi-3 has them.
  void MakeTensors(absl::string_view quantization) {
    folder_.Write("config.json", ConfigOf("phi3", quantization));
    const auto config = LoadModelConfig(folder_.path());
    ASSERT_TRUE(config.ok()) << config.status();
    tensors_ = QuantizedTensorsOf(*config, [](const std::string&, const ModuleShape& shape) {
                 std::vector<int32_t> groups(shape.columns);
                 for (int64_t i = 0; i < shape.columns; ++i) {
                   groups[i * 5 % shape.columns] = static_cast<int32_t>(i / 32);
                 }
                 return groups;
               }).quantized;
  }

  absl::StatusOr<std::unique_ptr<SequenceRunner>> Open(const std::vector<FileTensor>& tensors) {
    folder_.Write("model.safetensors", FileOf(tensors));
    return SequenceRunner::Create(folder_.path(), {.max_len = 16});
  }

  std::string ErrorOf(const std::vector<FileTensor>& tensors) {
    const absl::Status status = Open(tensors).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    const auto config = LoadModelConfig(folder_.path());
    EXPECT_EQ(Weights::CheckFiles(*config, folder_.path()).status(), status);
    return std::string(status.message());
  }

  // The bytes that a start plans for the folder; 0 after an error.
  int64_t PlannedBytes() {
    const auto config = LoadModelConfig(folder_.path());
    const auto checkpoint = Checkpoint::Open(folder_.path());
    const std::unique_ptr<Backend> backend = *OpenBackend({});
    EXPECT_TRUE(Weights::CheckFiles(*config, folder_.path()).ok());
    const auto sizes = Weights::SizesFor(*FactsOf(*backend), *config, DType::kF32, &*checkpoint);
    EXPECT_TRUE(sizes.ok()) << sizes.status();
    return sizes.ok() ? sizes->bytes : 0;
  }

  // Every form of tensors_ is one model, served as this family.
  void ExpectEveryFormIsOneModel(const std::string& config, bool quantized) {
    folder_.Write("config.json", config);
    std::vector<float> expected;
    int64_t expected_bytes = 0;
    for (int form = 0; form < kNumForms; ++form) {
      SCOPED_TRACE(form);
      const auto runner = Open(InForm(form, tensors_));
      ASSERT_TRUE(runner.ok()) << runner.status();
      for (const LayerLinear& linear : (*runner)->weights().linears()) {
        EXPECT_EQ(linear.weight->format.quantized(), quantized);
      }
      const int64_t bytes = PlannedBytes();
      const std::vector<float> logprobs =
          (*runner)->AppendPromptAndDecodes({1, 5, 90, 17, 3, 64, 2}, 5);
      if (form == 0) {
        expected = logprobs;
        expected_bytes = bytes;
      }
      EXPECT_EQ(logprobs, expected);
      EXPECT_EQ(bytes, expected_bytes);
    }
  }

  const TempFolder folder_;
  std::vector<FileTensor> tensors_;
};

TEST_F(FusedWeightsTest, FloatsMayBeFusedOrNot) {
  for (const char* family : {"phi3", "llama"}) {
    SCOPED_TRACE(family);
    ExpectEveryFormIsOneModel(ConfigOf(family), /*quantized=*/false);
  }
}

TEST_F(FusedWeightsTest, CodesMayBeFusedOrNot) {
  for (const char* quantization : {kGptq, kAwq}) {
    SCOPED_TRACE(quantization);
    MakeTensors(quantization);
    for (const char* family : {"phi3", "llama"}) {
      SCOPED_TRACE(family);
      ExpectEveryFormIsOneModel(ConfigOf(family, quantization), /*quantized=*/true);
    }
  }
}

TEST_F(FusedWeightsTest, BiasesMayBeFusedOrNot) {
  for (int i = 0; i < 2; ++i) {
    std::vector<float> bias(128);
    for (size_t j = 0; j < bias.size(); ++j) bias[j] = static_cast<float>(j % 7) / 8;
    tensors_.push_back({absl::StrCat("model.layers.", i, ".self_attn.qkv_proj.bias"),
                        "F32",
                        {128},
                        BytesOf(bias)});
  }
  ExpectEveryFormIsOneModel(ConfigOf("qwen2"), /*quantized=*/false);
}

// A checkpoint with one of the split tensors lacks the others. One with tensors of neither form
// lacks those of the family's own form.
TEST_F(FusedWeightsTest, WhatIsMissingIsNamedInTheFormOfTheCheckpoint) {
  EXPECT_EQ(Find(tensors_, "model.layers.1.mlp.gate_up_proj.weight").shape[0], 192);
  const auto without = [](absl::string_view text, std::vector<FileTensor> tensors) {
    std::erase_if(tensors, [&](const FileTensor& t) { return absl::StrContains(t.name, text); });
    return tensors;
  };
  EXPECT_THAT(ErrorOf(without("1.self_attn.qkv_proj", tensors_)),
              HasSubstr("lacks 1 tensors that config.json implies: "
                        "model.layers.1.self_attn.qkv_proj.weight;"));
  EXPECT_THAT(ErrorOf(without("1.self_attn.v_proj", InForm(0b0100, tensors_))),
              HasSubstr("lacks 1 tensors that config.json implies: "
                        "model.layers.1.self_attn.v_proj.weight;"));
  MakeTensors(kGptq);
  EXPECT_THAT(ErrorOf(without("0.mlp.up_proj", InForm(0b0010, tensors_))),
              HasSubstr("lacks the tensor model.layers.0.mlp.up_proj.qweight,"));
  EXPECT_THAT(ErrorOf(without("0.mlp.gate_up_proj", tensors_)),
              HasSubstr("lacks the tensor model.layers.0.mlp.gate_up_proj.qweight,"));
  folder_.Write("config.json", ConfigOf("llama"));
  EXPECT_THAT(ErrorOf(without("0.mlp", tensors_)),
              AllOf(HasSubstr("0.mlp.gate_proj.weight"), Not(HasSubstr("0.mlp.gate_up_proj"))));
}

// The family's own form is read, so that no layer reads the tensors of the other one.
TEST_F(FusedWeightsTest, BothFormsAreOneTooMany) {
  std::vector<FileTensor> both = tensors_;
  for (const FileTensor& tensor : InForm(0b0001, tensors_)) {
    if (absl::StrContains(tensor.name, "0.self_attn.k_proj")) both.push_back(tensor);
  }
  EXPECT_THAT(ErrorOf(both), AllOf(HasSubstr("has 1 tensors that no layer"),
                                   HasSubstr("model.layers.0.self_attn.k_proj.weight")));
}

// Some name the scales of the KV cache after projections that are fused.
TEST_F(FusedWeightsTest, ScalesOfTheKvCacheDoNotSayWhatIsFused) {
  folder_.Write("config.json", ConfigOf("llama"));
  tensors_.push_back({"model.layers.1.self_attn.k_proj.k_scale", "F32", {1}, BytesOf({0.5f})});
  const auto runner = Open(tensors_);
  ASSERT_TRUE(runner.ok()) << runner.status();
  EXPECT_EQ((*runner)->weights().layer(1).gqa.k_scales.as<float>()[0], 0.5f);
}

}  // namespace
}  // namespace quire

// What a start says and plans of quantized checkpoints, and what an engine then has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/capacity.h"
#include "engine/engine.h"
#include "engine/start_plan.h"
#include "tests/engine/checkpoint/test_files.h"
#include "tests/engine/model/tiny_weights.h"
#include "tests/engine/tiny_engine.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kModel[] = R"({"model_type": "llama", "vocab_size": 96, "hidden_size": 64,
    "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "dtype": "float32", "quantization_config": )";
constexpr char kGptq[] =
    R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": true, "desc_act": true})";

class QuantizedStartTest : public ::testing::Test {
 protected:
  void Write(absl::string_view quantization, const GroupsOf& groups_of = nullptr) {
    folder_.Write("config.json", absl::StrCat(kModel, quantization, "}"));
    const auto config = LoadModelConfig(folder_.path());
    ASSERT_TRUE(config.ok()) << config.status();
    tensors_ = QuantizedTensorsOf(*config, groups_of).quantized;
    WriteTensors();
  }
  void WriteTensors() { folder_.Write("model.safetensors", FileOf(tensors_)); }

  EngineConfig Config() const {
    EngineConfig config = testing::TinyConfig(folder_.path());
    config.load_format = LoadFormat::kAuto;
    return config;
  }

  absl::StatusOr<Capacity> Plan() const {
    auto backend = OpenBackend(Config().backend_options());
    return PlanCapacity(Config(), *FactsOf(**backend));
  }

  // What PlanStart logs.
  std::string LogOfPlan() const {
    std::ostringstream log;
    const auto before = spdlog::default_logger();
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
    EXPECT_TRUE(Plan().ok()) << Plan().status();
    spdlog::set_default_logger(before);
    return log.str();
  }

  const TempFolder folder_;
  std::vector<FileTensor> tensors_;
};

std::map<std::string, int64_t> Entries(const MemoryLedger& ledger) {
  return {ledger.entries.begin(), ledger.entries.end()};
}

std::vector<int32_t> Groups(const ModuleShape& shape, int64_t first) {
  std::vector<int32_t> groups(shape.columns);
  for (int64_t i = 0; i < shape.columns; ++i) {
    groups[(i + first) % shape.columns] = static_cast<int32_t>(i / 32);
  }
  return groups;
}

// Codes that are kept and codes that are expanded: the plan counts what the engine has, and says
// what is expanded.
TEST_F(QuantizedStartTest, ThePlanKnowsWhichWeightsAreExpanded) {
  std::vector<int64_t> bytes;
  for (const bool alike : {true, false}) {
    SCOPED_TRACE(alike);
    Write(kGptq, [&](const std::string& module, const ModuleShape& shape) {
      return Groups(shape, !alike && absl::StrContains(module, "k_proj") ? 1 : 0);
    });
    const auto capacity = Plan();
    ASSERT_TRUE(capacity.ok()) << capacity.status();
    auto engine = Engine::Open(Config(), *OpenBackend(Config().backend_options()));
    ASSERT_TRUE(engine.ok()) << engine.status();
    EXPECT_EQ(Entries(capacity->ledger), Entries((*engine)->memory_ledger()));
    bytes.push_back(Entries(capacity->ledger)[kWeightsEntry]);
    const auto says = HasSubstr(
        "quantized weights that are expanded to float32: model.layers.0.self_attn.q_proj and 1 "
        "more: their columns' groups (g_idx)");
    if (alike) {
      EXPECT_THAT(LogOfPlan(), Not(HasSubstr("expanded")));
    } else {
      EXPECT_THAT(LogOfPlan(), says);
    }
  }
  EXPECT_GT(bytes[1], bytes[0] + int64_t{2} * (64 + 32 + 32) * 64 * 3);
}

// The head, the embedding and, of layers, what is not quantized stay floats.
TEST_F(QuantizedStartTest, ThePlanCountsWeightsByFormat) {
  Write(kGptq, [](const std::string&, const ModuleShape& shape) { return Groups(shape, 0); });
  const auto capacity = Plan();
  ASSERT_TRUE(capacity.ok()) << capacity.status();
  std::map<std::string, int64_t> bytes;
  int64_t total = 0;
  for (const FormatBytes& weights : capacity->weights) {
    bytes[weights.format] += weights.bytes;
    total += weights.bytes;
  }
  EXPECT_EQ(total, Entries(capacity->ledger)[kWeightsEntry]);
  EXPECT_EQ(bytes.size(), 3u);
  EXPECT_GE(bytes["float32"], 2 * 96 * 64 * 4);
  const int64_t codes = 2 * ((64 + 32 + 32 + 64) * 64 + 3 * 96 * 64);
  EXPECT_GE(bytes["int4, groups of 32"], codes / 2 + codes / 32 * 4);
  EXPECT_LE(bytes["int4, groups of 32"], 2 * codes);
  EXPECT_EQ(capacity->weights.back().format, "norms, biases and padding");
}

// A g_idx that cannot be ends a plan, too; weights that are not there do not.
TEST_F(QuantizedStartTest, ThePlanReadsTheOrderOfColumns) {
  Write(kGptq);
  Find(tensors_, "model.layers.0.self_attn.q_proj.g_idx").data[0] = 9;
  WriteTensors();
  EXPECT_THAT(std::string(Plan().status().message()), HasSubstr("q_proj.g_idx has group 9"));
  std::filesystem::remove(folder_.path() + "/model.safetensors");
  EXPECT_TRUE(Plan().ok()) << Plan().status();
}

std::string Float8(absl::string_view more) {
  return absl::StrCat(R"({"quant_method": "compressed-tensors", "format": "float-quantized",
      "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8,
      "type": "float", "symmetric": true, "strategy": "channel"}}})",
                      more, "}");
}

// A checkpoint that is made for an 8-bit cache gets one, with its scales, unless it is told else.
TEST_F(QuantizedStartTest, TheKvCacheIsWhatTheCheckpointIsMadeFor) {
  for (const char* strategy : {"tensor", "attn_head"}) {
    SCOPED_TRACE(strategy);
    Write(Float8(absl::StrCat(R"(, "kv_cache_scheme": {"num_bits": 8, "type": "float",
        "symmetric": true, "dynamic": false, "strategy": ")",
                              strategy, "\"}")));
    const std::string layer = "model.layers.1.self_attn.";
    const bool per_head = strategy[0] == 'a';
    tensors_.push_back(
        {layer + "k_scale",
         "F32",
         {per_head ? 2 : 1},
         BytesOf(per_head ? std::vector<float>{0.5f, 0.25f} : std::vector<float>{0.5f})});
    tensors_.push_back({layer + "v_scale", "F32", {1}, BytesOf({2})});
    WriteTensors();
    EXPECT_THAT(LogOfPlan(), HasSubstr("the KV cache is in fp8_e4m3, as config.json: "
                                       "quantization_config: kv_cache_scheme says"));
    auto engine = Engine::Open(Config(), *OpenBackend(Config().backend_options()));
    ASSERT_TRUE(engine.ok()) << engine.status();
    EXPECT_EQ((*engine)->model_info().kv_cache_dtype, DType::kF8E4M3);
    const auto weights = Weights::Load(**OpenBackend({}), *LoadModelConfig(folder_.path()),
                                       folder_.path(), {.dtype = DType::kF32});
    ASSERT_TRUE(weights.ok()) << weights.status();
    const float* const scales = weights->layer(1).gqa.k_scales.as<float>();
    EXPECT_EQ(scales[0], 0.5f);
    EXPECT_EQ(scales[1], per_head ? 0.25f : 0.5f);
    EXPECT_EQ(weights->layer(1).gqa.v_scales.as<float>()[0], 2);
    EngineConfig told = Config();
    told.kv_cache_dtype = DType::kBF16;
    EXPECT_EQ(PlanCapacity(told, *FactsOf(**OpenBackend({})))->model.kv_cache_dtype, DType::kBF16);
  }
}

TEST_F(QuantizedStartTest, AKvCacheThatIsNotServedIsNamed) {
  Write(Float8(R"(, "kv_cache_scheme": {"num_bits": 8, "type": "int", "symmetric": true})"));
  EXPECT_THAT(LogOfPlan(), HasSubstr("config.json: quantization_config: kv_cache_scheme: a KV "
                                     "cache in int8 is not served; it is in float32"));
  EXPECT_EQ(Plan()->model.kv_cache_dtype, DType::kF32);
  Write(Float8(""));
  EXPECT_THAT(LogOfPlan(), Not(HasSubstr("KV cache")));
}

}  // namespace
}  // namespace quire

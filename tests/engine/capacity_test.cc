// What --plan says against arithmetic done by hand, and against an engine that was really opened.
#include "engine/capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "engine/engine.h"
#include "engine/start_plan.h"
#include "tests/engine/tiny_engine.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

constexpr char kLlama8B[] = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16",
  "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
  "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
  "tie_word_embeddings": false})";

// Five layers with a window of 32 tokens for each without one.
constexpr char kTinyQwen35[] = R"({
  "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "vocab_size": 48,
  "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 4096,
  "linear_key_head_dim": 16, "linear_value_head_dim": 8, "linear_num_key_heads": 2,
  "linear_num_value_heads": 4
})";

constexpr char kTinyGemma[] = R"({
  "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "vocab_size": 64,
  "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 4096, "sliding_window": 32,
  "sliding_window_pattern": 6, "rms_norm_eps": 1e-6, "query_pre_attn_scalar": 16,
  "torch_dtype": "float32"})";

class CapacityTest : public ::testing::Test {
 protected:
  CapacityTest()
      : folder_(absl::StrCat(::testing::TempDir(), "quire_capacity_", static_cast<int>(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~CapacityTest() override { std::filesystem::remove_all(folder_); }

  EngineConfig ConfigFor(const char* config_json) {
    std::ofstream(folder_ + "/config.json") << config_json;
    EngineConfig config = testing::TinyConfig(folder_);
    config.dtype = std::nullopt;
    return config;
  }

  EngineConfig LlamaOnGpu() {
    EngineConfig config = ConfigFor(kLlama8B);
    config.device = DeviceKind::kCuda;
    config.max_num_seqs = config.max_num_batched_tokens = 0;
    config.kv_cache_memory_bytes = 0;
    return config;
  }

  const std::string folder_;
};

std::map<std::string, int64_t> Entries(const MemoryLedger& ledger) {
  return {ledger.entries.begin(), ledger.entries.end()};
}

TEST_F(CapacityTest, Llama8BOnAGpuIsWhatArithmeticSays) {
  const Capacity capacity = *PlanCapacity(LlamaOnGpu(), FactsOfGpu(80 * kGiB));
  constexpr int64_t kNumParameters = 8'030'261'248;
  EXPECT_EQ(capacity.model.num_parameters, kNumParameters);
  auto entries = Entries(capacity.ledger);
  // Norms are float32, and each tensor begins at a multiple of 256 bytes.
  EXPECT_GE(entries[kWeightsEntry], 2 * kNumParameters);
  EXPECT_LE(entries[kWeightsEntry], 2 * kNumParameters + kMiB);
  ASSERT_EQ(capacity.kv.size(), 1);
  EXPECT_EQ(capacity.kv[0].bytes_per_token, 32 * 8 * 128 * 2 * 2);
  EXPECT_EQ(capacity.kv[0].num_layers, 32);
  EXPECT_EQ(capacity.model.max_num_seqs, 1024);
  int64_t beside = capacity.ledger.total_bytes - capacity.ledger.available_bytes;
  for (const auto& [what, bytes] : entries) {
    if (what != kKvCacheEntry) beside += bytes;
  }
  const int64_t block_bytes = 16 * 131'072;
  EXPECT_EQ(capacity.model.num_kv_blocks, (80 * kGiB * 9 / 10 - beside) / block_bytes);
  EXPECT_EQ(entries[kKvCacheEntry], capacity.model.num_kv_blocks * block_bytes);
  ASSERT_EQ(capacity.streams.size(), 3);  // 1,024 and 4,096 tokens, and the model's 8,192
  for (const StreamCapacity& streams : capacity.streams) {
    EXPECT_EQ(streams.kv_bytes, streams.num_tokens * 131'072);
    EXPECT_EQ(streams.num_streams, capacity.model.num_kv_blocks / (streams.num_tokens / 16));
  }
  EXPECT_EQ(capacity.streams.back().num_tokens, 8192);
}

TEST_F(CapacityTest, QuantizedWeightsAreCountedAsTheyAreKept) {
  EngineConfig config = LlamaOnGpu();
  config.quantization = LoadQuantization::kFloat8;
  const Capacity capacity = *PlanCapacity(config, FactsOfGpu(80 * kGiB));
  constexpr int64_t kOfEnds = int64_t{2} * 128'256 * 4096, kOfLayers = 6'979'321'856;
  auto entries = Entries(capacity.ledger);
  const int64_t bytes = 2 * kOfEnds + kOfLayers + kOfLayers / 128 * 4;  // a scale for 128 columns
  EXPECT_GE(entries[kWeightsEntry], bytes);
  EXPECT_LE(entries[kWeightsEntry], bytes + 3 * kMiB);  // norms
  config.dtype = DType::kF32;
  EXPECT_EQ(PlanCapacity(config, FactsOfGpu(80 * kGiB)).status().code(),
            absl::StatusCode::kOutOfRange);
}

TEST_F(CapacityTest, FormatsWithoutGemmsAreExpanded) {
  const DeviceFacts gpu = FactsOfGpu(80 * kGiB);
  const WeightFormat int4 = {.value = WeightValue::kInt4, .group_columns = 128};
  EXPECT_EQ(gpu.format_for({int4}, DType::kBF16, false).weight, int4);
  EXPECT_EQ(gpu.format_for({int4}, DType::kF32, false), LinearFormat());
  const WeightFormat mxfp8 = {
      .value = WeightValue::kFloat8, .scale = ScaleValue::kPowerOfTwo, .group_columns = 32};
  EXPECT_EQ(gpu.format_for({mxfp8}, DType::kBF16, false), LinearFormat());
  // Rows of 64, columns of 128.
  const LinearWeight ragged = {
      .format = int4, .dtype = DType::kBF16, .out_features = 65, .in_features = 130};
  EXPECT_EQ(gpu.weight_bytes(ragged), 128 * 256 / 2 + 128 * 2 * 4);
}

// A device that has no gemms for what activations should become multiplies them as they are.
TEST_F(CapacityTest, ActivationsBecomeWhatGemmsTake) {
  const std::unique_ptr<Backend> cpu = OpenBackend({.kind = DeviceKind::kCpu}).value();
  const LinearFormat float8 = {{.value = WeightValue::kFloat8, .group_columns = 128},
                               {ActivationValue::kFloat8}};
  const LinearFormat int8 = {{.value = WeightValue::kInt8}, {ActivationValue::kInt8}};
  const DeviceFacts gpu_facts = FactsOfGpu(80 * kGiB), cpu_facts = *FactsOf(*cpu);
  EXPECT_EQ(gpu_facts.format_for(float8, DType::kBF16, false), float8);
  EXPECT_EQ(gpu_facts.format_for(int8, DType::kBF16, false), LinearFormat{int8.weight});
  EXPECT_EQ(cpu_facts.format_for(float8, DType::kBF16, false), LinearFormat{float8.weight});
  EXPECT_EQ(cpu_facts.format_for(int8, DType::kBF16, false), int8);
}

TEST_F(CapacityTest, AnEightBitCacheHoldsTwiceAsMany) {
  EngineConfig config = LlamaOnGpu();
  const Capacity plain = *PlanCapacity(config, FactsOfGpu(80 * kGiB));
  config.kv_cache_dtype = DType::kF8E4M3;
  const Capacity half = *PlanCapacity(config, FactsOfGpu(80 * kGiB));
  EXPECT_EQ(2 * half.kv[0].bytes_per_token, plain.kv[0].bytes_per_token);
  EXPECT_NEAR(half.model.num_kv_blocks, 2 * plain.model.num_kv_blocks, 1);
}

// A user who expects that shared prefixes are read once is told where they are not.
TEST_F(CapacityTest, ALineSaysWhyThereIsNoCascade) {
  const auto log_of = [](const EngineConfig& config) {
    std::ostringstream log;
    const auto before = spdlog::default_logger();
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
    EXPECT_TRUE(PlanStart(config, FactsOfGpu(80 * kGiB)).ok());
    spdlog::set_default_logger(before);
    return log.str();
  };
  EngineConfig config = LlamaOnGpu();
  EXPECT_EQ(log_of(config), "");
  config.enable_prefix_caching = false;
  EXPECT_THAT(log_of(config), HasSubstr("(no cascade attention): without prefix caching none"));
  config.min_prefix_tokens = 0;  // --no-cascade-attention
  EXPECT_EQ(log_of(config), "");
  config = ConfigFor(kTinyGemma);
  EXPECT_EQ(log_of(config), "");  // on a CPU there never is one
  config.device = DeviceKind::kCuda;
  EXPECT_THAT(log_of(config),
              HasSubstr("(no cascade attention): its layers keep keys and values in 6 ways"));
}

TEST_F(CapacityTest, StatesOfSequencesAreCountedBesideTheCache) {
  EngineConfig config = ConfigFor(kTinyQwen35);
  config.device = DeviceKind::kCuda;
  config.dtype = DType::kBF16;
  config.max_num_seqs = 0;
  const Capacity capacity = *PlanCapacity(config, FactsOfGpu(80 * kGiB));
  ASSERT_EQ(capacity.kv.size(), 1);
  EXPECT_EQ(capacity.kv[0].num_layers, 1);
  EXPECT_EQ(capacity.num_layers_without_kv, 0);
  EXPECT_EQ(capacity.states.num_layers, 3);
  // 3 rows of 96 channels in bfloat16, and 4 heads of 16 by 8 in float32.
  EXPECT_EQ(capacity.states.bytes_per_sequence, 3 * (768 + 2048));
  EXPECT_EQ(Entries(capacity.ledger)[kRecurrentEntry],
            (capacity.model.max_num_seqs + capacity.states.num_snapshots) * 3 * (768 + 2048));
  config.state_dtype = DType::kBF16;
  EXPECT_EQ(PlanCapacity(config, FactsOfGpu(80 * kGiB))->states.bytes_per_sequence,
            3 * (768 + 1024));
  // A running sequence has a state of its own: not only the longest context counts.
  config.state_cache_memory_bytes = 5 * 3 * (768 + 1024);
  const Capacity little = *PlanCapacity(config, FactsOfGpu(80 * kGiB));
  EXPECT_EQ(little.model.max_num_seqs, 3);
  EXPECT_EQ(little.states.num_snapshots, 2);
  EXPECT_EQ(little.streams[0].num_streams, 3);
}

TEST_F(CapacityTest, SettingsOfStatesThatMeanNothingHereAreRefused) {
  const auto refusal = [](const EngineConfig& config) {
    const absl::Status status = PlanCapacity(config, FactsOfGpu(80 * kGiB)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
    return std::string(status.message());
  };
  EngineConfig config = ConfigFor(kTinyQwen35);
  config.state_dtype = DType::kBF16;
  EXPECT_THAT(refusal(config), HasSubstr("--mamba-ssm-cache-dtype: on the CPU"));
  config = ConfigFor(kTinyQwen35);
  config.snapshot_interval = 100;
  EXPECT_THAT(refusal(config), HasSubstr("--mamba-block-size: 100 is not a multiple of 64"));
  config = ConfigFor(kTinyGemma);
  config.state_cache_memory_bytes = 1;
  EXPECT_THAT(refusal(config), HasSubstr("no layer of this model keeps a recurrent state"));
}

TEST_F(CapacityTest, WhatDoesNotFitIsRefusedWithTheFigures) {
  const absl::Status status = PlanCapacity(LlamaOnGpu(), FactsOfGpu(16 * kGiB)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("the model does not fit"));
}

TEST_F(CapacityTest, AWindowBoundsWhatAStreamHolds) {
  EngineConfig config = ConfigFor(kTinyGemma);
  config.device = DeviceKind::kCuda;
  config.max_num_batched_tokens = 64;
  const Capacity capacity = *PlanCapacity(config, FactsOfGpu(80 * kGiB));
  ASSERT_EQ(capacity.kv.size(), 2);
  int64_t num_windowed = 0, num_full = 0;
  for (const LayerKv& kv : capacity.kv) {
    (kv.spec.sliding_window == 32 ? num_windowed : num_full) += kv.num_layers;
  }
  EXPECT_EQ(num_windowed, 5);
  EXPECT_EQ(num_full, 1);
  // A group of one layer each: a long stream holds all of one and 4 blocks of each of five: 32
  // tokens with two steps of one token after them, neither end aligned.
  EXPECT_EQ(capacity.streams.back().num_tokens, 4096);
  EXPECT_EQ(capacity.streams.back().kv_bytes, (4096 / 16 + 5 * 4) * capacity.block_bytes);
  // One that reads its prompt in steps of 64 holds more of those: 10 blocks.
  EXPECT_EQ(capacity.streams.back().num_streams,
            1 + (capacity.model.num_kv_blocks - (256 + 5 * 11)) / (256 + 5 * 4));
}

// Whatever the engine is told, it then has what the plan says.
TEST_F(CapacityTest, AnEngineThatIsOpenedHasWhatWasPlanned) {
  std::vector<EngineConfig> configs = {ConfigFor(kTinyGemma)};
  configs.push_back(configs[0]);
  configs.back().block_size = 32;
  configs.back().max_num_seqs = 5;
  configs.back().max_model_len = 1000;
  configs.push_back(configs[0]);
  configs.back().dtype = DType::kBF16;
  configs.push_back(configs.back());
  configs.back().kv_cache_dtype = DType::kF8E4M3;
  configs.back().kv_cache_dtype_skip_layers = {"sliding_window"};
  configs.push_back(ConfigFor(kTinyQwen35));
  configs.push_back(configs.back());
  configs.back().enable_prefix_caching = false;
  for (size_t i = 0; i < configs.size(); ++i) {
    SCOPED_TRACE(i);
    auto backend = *OpenBackend(configs[i].backend_options());
    const Capacity capacity = *PlanCapacity(configs[i], *FactsOf(*backend));
    const std::unique_ptr<Engine> engine = *Engine::Open(configs[i], std::move(backend));
    const ModelInfo& info = engine->model_info();
    EXPECT_EQ(capacity.model.num_kv_blocks, info.num_kv_blocks);
    EXPECT_EQ(capacity.model.max_model_len, info.max_model_len);
    EXPECT_EQ(capacity.model.max_num_seqs, info.max_num_seqs);
    EXPECT_EQ(capacity.model.num_parameters, info.num_parameters);
    EXPECT_EQ(Entries(capacity.ledger), Entries(engine->memory_ledger()));
  }
}

}  // namespace
}  // namespace quire

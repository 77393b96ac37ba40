// Models that keep recurrent states, with a prefix cache: an answer has the same bits whether its
// prompt was found in the cache or not, and no sequence sees a state that another has left.
//
//   QUIRE_STATE_PATTERNS=5000 QUIRE_STATE_SEED=1 build/cpu/bin/state_cache_test
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/engine/graph_backend.h"
#include "tests/engine/poisoning_backend.h"
#include "tests/engine/tiny_engine.h"

namespace quire {
namespace {

using testing::Answer;
using testing::Generate;
using testing::GraphBackend;
using testing::PoisoningBackend;
using testing::ReadAll;
using testing::Waiter;

constexpr int64_t kMaxLen = 2048;
constexpr int64_t kBlockBytes = 16 * 2 * 2 * 16 * 4;  // one layer of attention: K and V, 2 heads
constexpr int64_t kSlotBytes = 3 * (1280 + 2048);     // three layers with states

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
}

// Random weights that have been compared with transformers', of a longer context.
std::string ModelFolder() {
  const std::string folder = ::testing::TempDir() + "state_cache_model";
  const std::string golden = "tests/engine/model/golden/qwen35_causal";
  std::filesystem::create_directories(folder);
  std::ifstream in(golden + "/config.json");
  std::string config((std::istreambuf_iterator<char>(in)), {});
  const std::string key = "\"max_position_embeddings\": 256";
  config.replace(config.find(key), key.size(), "\"max_position_embeddings\": 2048");
  std::ofstream(folder + "/config.json") << config;
  std::filesystem::copy_file(golden + "/model.safetensors", folder + "/model.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  return folder;
}

bool SameBits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

void ExpectSameBits(const Answer& answer, const Answer& cold) {
  ASSERT_EQ(answer.reason, cold.reason);
  ASSERT_EQ(answer.tokens, cold.tokens);
  ASSERT_EQ(answer.logprobs.size(), cold.logprobs.size());
  for (size_t i = 0; i < cold.logprobs.size(); ++i) {
    ASSERT_TRUE(SameBits(answer.logprobs[i].logprob, cold.logprobs[i].logprob)) << "token " << i;
    ASSERT_EQ(answer.logprobs[i].top, cold.logprobs[i].top) << "token " << i;
  }
}

class StateCacheTest : public ::testing::Test {
 protected:
  EngineConfig Config() const {
    EngineConfig config = testing::TinyConfig(folder_);
    config.load_format = LoadFormat::kAuto;
    config.max_model_len = kMaxLen;
    config.snapshot_interval = 128;
    return config;
  }
  EngineConfig ColdConfig() const {
    EngineConfig config = Config();
    config.enable_prefix_caching = false;
    config.async_scheduling = false;
    return config;
  }
  std::unique_ptr<Engine> Open(const EngineConfig& config, std::unique_ptr<Backend> backend) {
    auto engine = Engine::Open(config, std::move(backend));
    EXPECT_TRUE(engine.ok()) << engine.status();
    return engine.ok() ? *std::move(engine) : nullptr;
  }
  std::unique_ptr<Engine> OpenPoisoned(const EngineConfig& config) {
    return Open(config, std::make_unique<PoisoningBackend>(num_poisoned_));
  }
  int Uniform(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  void Append(int64_t num_tokens, std::vector<TokenId>* tokens) {
    for (; num_tokens > 0; --num_tokens) tokens->push_back(Uniform(3, 47));
  }

  const std::string folder_ = ModelFolder();
  const std::shared_ptr<std::atomic<int64_t>> num_poisoned_ =
      std::make_shared<std::atomic<int64_t>>(0);
  std::mt19937 random_{static_cast<uint32_t>(FromEnvironment("QUIRE_STATE_SEED", 1))};
};

Request RequestOf(std::vector<TokenId> prompt, int64_t max_tokens) {
  Request request = testing::GreedyRequest(std::move(prompt), max_tokens);
  request.sampling.logprobs = 3;
  return request;
}

// Each turn's prompt is all that was said before, and some more.
TEST_F(StateCacheTest, AConversationOf50TurnsIsAsIfEachTurnCameAlone) {
  const auto cached = OpenPoisoned(Config());
  const auto cold = Open(ColdConfig(), *OpenBackend(Config().backend_options()));
  std::vector<TokenId> said;
  Append(70, &said);
  int64_t num_computed = 0;
  for (int turn = 0; turn < 50; ++turn) {
    SCOPED_TRACE(turn);
    const Request request = RequestOf(said, 12);
    const Answer answer = Generate(*cached, request);
    ASSERT_NO_FATAL_FAILURE(ExpectSameBits(answer, Generate(*cold, request)));
    num_computed += static_cast<int64_t>(said.size()) - answer.cached_tokens;
    // At most from the last boundary before the end of the last prompt.
    if (turn > 0) {
      ASSERT_LE(said.size() - answer.cached_tokens, 64u + 2 * (12 + 26));
    }
    said.insert(said.end(), answer.tokens.begin(), answer.tokens.end());
    Append(Uniform(5, 26), &said);
  }
  const StateStats& states = cached->status().scheduler.blocks.states;
  EXPECT_EQ(states.num_hits, 49);
  EXPECT_LT(num_computed, 50 * 140);
}

struct Pattern {
  Request request;
  std::vector<Answer> cold;  // of each continuation
};

// Prompts that begin like earlier ones do and part from them anywhere, in engines that have few
// blocks and few slots, so that sequences are preempted and snapshots evicted; some continue in
// several ways.
TEST_F(StateCacheTest, AHitHasTheBitsOfAMiss) {
  const int64_t num_patterns = FromEnvironment("QUIRE_STATE_PATTERNS", 500);
  constexpr int kNumEngines = 6;
  const auto cold = Open(ColdConfig(), *OpenBackend(Config().backend_options()));
  int64_t num_hits = 0, num_preemptions = 0, num_evicted = 0, num_recomputed = 0, num_forks = 0;
  for (int engine_index = 0; engine_index < kNumEngines; ++engine_index) {
    EngineConfig config = Config();
    config.max_num_seqs = Uniform(4, 8);
    config.max_num_batched_tokens = Uniform(64, 256);
    config.block_size = Uniform(0, 1) == 0 ? 16 : 32;
    config.max_model_len = 512;
    config.kv_cache_memory_bytes = (512 / 16 + Uniform(0, 12)) * kBlockBytes;
    config.state_cache_memory_bytes = (config.max_num_seqs + Uniform(2, 4)) * kSlotBytes;
    config.async_scheduling = engine_index % 2 == 0;
    const auto engine = engine_index % 3 == 2 ? Open(config, std::make_unique<GraphBackend>())
                                              : OpenPoisoned(config);
    ASSERT_NE(engine, nullptr);
    std::vector<std::vector<TokenId>> prompts;
    for (int64_t left = num_patterns / kNumEngines; left > 0;) {
      std::vector<Pattern> patterns(std::min<int64_t>(left, Uniform(1, 10)));
      left -= static_cast<int64_t>(patterns.size());
      for (Pattern& pattern : patterns) {
        std::vector<TokenId> prompt;
        if (!prompts.empty() && Uniform(0, 3) > 0) {
          prompt = prompts[Uniform(0, static_cast<int>(prompts.size()) - 1)];
          if (Uniform(0, 2) > 0) prompt.resize(Uniform(1, static_cast<int>(prompt.size())));
        }
        Append(std::min<int64_t>(Uniform(1, 150), 460 - static_cast<int64_t>(prompt.size())),
               &prompt);
        prompts.push_back(prompt);
        // Long answers: they grow until somebody has to give way.
        const int64_t room = 500 - static_cast<int64_t>(prompt.size());
        pattern.request = RequestOf(
            std::move(prompt),
            std::min<int64_t>(Uniform(0, 2) == 0 ? Uniform(100, 250) : Uniform(1, 40), room));
        if (Uniform(0, 4) == 0) {
          pattern.request.sampling.n = 3;
          pattern.request.sampling.temperature = 0.9f;
          pattern.request.sampling.seed = random_();
          ++num_forks;
        }
        Waiter waiter;
        const auto stream = *cold->Submit(pattern.request, &waiter);
        pattern.cold = ReadAll(*stream, waiter);
        cold->WaitUntilIdle(absl::InfiniteFuture());
      }
      Waiter waiter;
      std::vector<std::shared_ptr<OutputStream>> streams;
      for (const Pattern& pattern : patterns) {
        streams.push_back(*engine->Submit(pattern.request, &waiter));
      }
      for (size_t i = 0; i < streams.size(); ++i) {
        const std::vector<Answer> answers = ReadAll(*streams[i], waiter);
        for (size_t j = 0; j < answers.size(); ++j) {
          SCOPED_TRACE(::testing::Message() << "engine " << engine_index << ", " << left
                                            << " left, request " << i << ", continuation " << j);
          ASSERT_NO_FATAL_FAILURE(ExpectSameBits(answers[j], patterns[i].cold[j]));
        }
      }
      engine->WaitUntilIdle(absl::InfiniteFuture());
    }
    engine->FlushPrefixCache();  // runs between two steps: what came before has been published
    const SchedulerStats stats = engine->status().scheduler;
    num_preemptions += stats.num_preemptions;
    num_hits += stats.blocks.states.num_hits;
    num_evicted += stats.blocks.states.num_evicted;
    num_recomputed += stats.blocks.num_recomputed_tokens;
    EXPECT_EQ(stats.blocks.states.num_live, 0);
  }
  std::printf("%lld hits, %lld preemptions, %lld snapshots evicted, %lld tokens recomputed\n",
              static_cast<long long>(num_hits), static_cast<long long>(num_preemptions),
              static_cast<long long>(num_evicted), static_cast<long long>(num_recomputed));
  EXPECT_GT(num_hits, num_patterns / 10);
  EXPECT_GT(num_preemptions, num_patterns / 50);
  EXPECT_GT(num_evicted, num_patterns / 50);
  EXPECT_GT(num_recomputed, 0);
  EXPECT_GT(num_forks, num_patterns / 10);
  EXPECT_GT(*num_poisoned_, num_patterns);
}

}  // namespace
}  // namespace quire

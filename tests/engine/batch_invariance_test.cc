// On the CPU a request has the same tokens and the same bits of logprobs when it runs by itself and
// in any batch, however its prompt is cut, after a prefix hit and after a preemption, eagerly and
// replayed, in both dtypes. Random (request, batch) pairs:
//
//   QUIRE_INVARIANCE_PAIRS=10000 QUIRE_INVARIANCE_SEED=1 build/cpu/bin/batch_invariance_test
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <random>

#include "engine/model/attention_shapes.h"
#include "tests/engine/graph_backend.h"
#include "tests/engine/tiny_engine.h"

namespace quire {
namespace {

using testing::Answer;
using testing::Generate;
using testing::GraphBackend;
using testing::ReadAll;
using testing::Waiter;

constexpr int64_t kMaxLen = 176;
constexpr int64_t kMaxPrompt = 112;
constexpr int64_t kMaxShared = 80;  // beyond the first snapshot of a state
constexpr int64_t kMaxAnswer = 64;
constexpr int kNumRequests = 32;

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
}

struct ModelCase {
  const char* name;
  const char* folder;
  LoadFormat format;
};

// A dense model whose random weights make close races of greedy choices, one with two layer
// groups, windows and soft caps, and one whose layers keep states of their sequences.
constexpr ModelCase kModels[] = {
    {"Dense", "configs/demo", LoadFormat::kDummy},
    {"Windows", "tests/engine/model/golden/gemma2_caps_windows", LoadFormat::kAuto},
    {"States", "tests/engine/model/golden/qwen35_causal", LoadFormat::kAuto}};

class BatchInvarianceTest : public ::testing::TestWithParam<std::tuple<ModelCase, DType>> {
 protected:
  EngineConfig Config() const {
    const auto& [model, dtype] = GetParam();
    EngineConfig config = testing::TinyConfig(model.folder);
    config.load_format = model.format;
    config.dtype = dtype;
    config.max_model_len = kMaxLen;
    return config;
  }
  int Uniform(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  std::unique_ptr<Engine> Open(const EngineConfig& config, bool replayed) {
    auto engine =
        replayed ? Engine::Open(config, std::make_unique<GraphBackend>()) : Engine::Open(config);
    EXPECT_TRUE(engine.ok()) << engine.status();
    return engine.ok() ? *std::move(engine) : nullptr;
  }

  // Half of the prompts begin with the same tokens, for the prefix cache to find.
  Request MakeRequest(int64_t vocab_size) {
    Request request;
    const int64_t length = Uniform(1, kMaxPrompt);
    const bool shares = Uniform(0, 1) == 0;
    std::mt19937 shared(7);
    for (int64_t i = 0; i < length; ++i) {
      const uint32_t draw = shares && i < kMaxShared ? shared() : random_();
      request.prompt.push_back(static_cast<TokenId>(draw % vocab_size));
    }
    request.sampling.temperature = Uniform(0, 2) == 0 ? 0.8f : 0.0f;
    request.sampling.top_p = 0.95f;
    request.sampling.seed = random_();
    request.sampling.repetition_penalty = Uniform(0, 3) == 0 ? 1.2f : 1.0f;
    request.sampling.logprobs = 4;
    request.stop.max_tokens = Uniform(1, kMaxAnswer);
    return request;
  }

  EngineConfig RandomConfig() {
    EngineConfig config = Config();
    config.max_num_seqs = Uniform(4, 16);
    config.max_num_batched_tokens = Uniform(static_cast<int>(config.max_num_seqs), 256);
    config.block_size = Uniform(0, 1) == 0 ? 16 : 32;
    config.async_scheduling = Uniform(0, 1) == 0;
    config.enable_prefix_caching = Uniform(0, 2) != 0;
    return config;
  }

  // Room for one sequence of the greatest length.
  static int64_t TightCacheBytes(const EngineConfig& config, const ModelConfig& model) {
    const KvLayout layout = MakeKvLayout(model, *config.dtype, config.block_size);
    const auto num_groups = static_cast<int64_t>(layout.groups.size());
    return layout.BlockBytes() * num_groups * CeilDiv<int64_t>(kMaxLen, config.block_size);
  }

  std::mt19937 random_{static_cast<uint32_t>(FromEnvironment("QUIRE_INVARIANCE_SEED", 1))};
};

// Exactly: == would let -0 pass for 0, and NaN for nothing.
bool SameBits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

bool SameLogprobs(const TokenLogprobs& a, const TokenLogprobs& b) {
  bool same = SameBits(a.logprob, b.logprob) && a.rank == b.rank && a.top.size() == b.top.size();
  for (size_t i = 0; same && i < a.top.size(); ++i) {
    same = a.top[i].first == b.top[i].first && SameBits(a.top[i].second, b.top[i].second);
  }
  return same;
}

bool Same(const Answer& a, const Answer& b) {
  return a.tokens == b.tokens && a.logprobs.size() == b.logprobs.size() &&
         std::equal(a.logprobs.begin(), a.logprobs.end(), b.logprobs.begin(), SameLogprobs);
}

TEST_P(BatchInvarianceTest, TheBatchChangesNothing) {
  std::vector<Request> requests;
  std::vector<Answer> alone;
  ModelConfig model;
  {
    EngineConfig config = Config();
    config.enable_prefix_caching = false;
    config.max_num_batched_tokens = 256;
    const auto engine = Open(config, /*replayed=*/false);
    ASSERT_NE(engine, nullptr);
    model = engine->model_info().config;
    for (int i = 0; i < kNumRequests; ++i) {
      requests.push_back(MakeRequest(model.vocab_size));
      alone.push_back(Generate(*engine, requests.back()));
    }
  }
  constexpr int64_t kNumCases = 6;  // instances of this test
  const int64_t num_pairs = FromEnvironment("QUIRE_INVARIANCE_PAIRS", 800) / kNumCases;
  int64_t num_hits = 0, num_preemptions = 0, num_compared = 0;
  for (int engine_index = 0; num_compared < num_pairs; ++engine_index) {
    EngineConfig config = RandomConfig();
    // Every other engine has room for hardly two sequences.
    if (engine_index % 2 == 0) config.kv_cache_memory_bytes = TightCacheBytes(config, model);
    const auto engine = Open(config, /*replayed=*/engine_index % 4 >= 2);
    ASSERT_NE(engine, nullptr);
    for (int round = 0; round < 4; ++round) {
      Waiter waiter;
      std::vector<int> chosen;
      std::vector<std::shared_ptr<OutputStream>> streams;
      for (int i = Uniform(2, 20); i > 0; --i) {
        chosen.push_back(Uniform(0, kNumRequests - 1));
        streams.push_back(*engine->Submit(requests[chosen.back()], &waiter));
      }
      for (size_t i = 0; i < streams.size(); ++i) {
        const Answer answer = ReadAll(*streams[i], waiter).at(0);
        num_hits += answer.cached_tokens > 0 ? 1 : 0;
        ASSERT_TRUE(Same(answer, alone[chosen[i]]))
            << "request " << chosen[i] << " in engine " << engine_index << ", round " << round;
        ++num_compared;
      }
      engine->WaitUntilIdle(absl::InfiniteFuture());  // the waiter must outlive the last notice
    }
    num_preemptions += engine->status().scheduler.num_preemptions;
  }
  std::printf("%lld pairs, %lld after a prefix hit, %lld preemptions, 0 differences\n",
              static_cast<long long>(num_compared), static_cast<long long>(num_hits),
              static_cast<long long>(num_preemptions));
  EXPECT_GT(num_hits, num_pairs / 50);
  // Windows give blocks back as fast as answers grow, so nothing has to make room there.
  if (model.layers[0].gqa.sliding_window == 0) {
    EXPECT_GT(num_preemptions, num_pairs / 100);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, BatchInvarianceTest,
                         ::testing::Combine(::testing::ValuesIn(kModels),
                                            ::testing::Values(DType::kF32, DType::kBF16)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) +
                                  (std::get<1>(info.param) == DType::kF32 ? "F32" : "BF16");
                         });

}  // namespace
}  // namespace quire

// How much the prefix cache finds, which correctness tests do not see. The workload has popular
// documents, conversations that go on, and unrelated prompts, one request after the other; what
// could be found at best is computed from the token sequences alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/scheduler/harness.h"
#include "tests/sim/oracle.h"
#include "tests/sim/workload.h"

namespace quire::sim {
namespace {

constexpr int32_t kBlockSize = 4;

struct Computed {
  std::string salt;
  std::vector<TokenId> tokens;  // whose KV was computed
};

// Tokens of whole blocks that `prompt` shares with the best of `earlier`, one token less than all.
int64_t PossibleHit(const Request& request, const std::vector<Computed>& earlier) {
  int64_t best = 0;
  for (const Computed& other : earlier) {
    if (other.salt != request.cache_salt) continue;
    const auto [end, unused] = std::mismatch(request.prompt.begin(), request.prompt.end(),
                                             other.tokens.begin(), other.tokens.end());
    best = std::max<int64_t>(best, end - request.prompt.begin());
  }
  const int64_t longest = request.prompt.size() - 1;
  return std::min(best, longest) / kBlockSize * kBlockSize;
}

struct Hits {
  int64_t possible = 0;
  int64_t found = 0;
};

Hits RunWorkload(int num_requests, int64_t num_blocks, std::vector<KvSpec> groups) {
  SchedulerConfig config;
  config.max_model_len = 96;
  BlockManagerConfig blocks;
  blocks.num_blocks = num_blocks;
  blocks.block_size = kBlockSize;
  blocks.groups = std::move(groups);
  SchedulerHarness h(config, blocks);
  ExpectedStream expected;
  h.sample = [&](const SequenceKey&, int64_t num_generated) {
    return expected.tokens[expected.num_prompt_tokens + num_generated];
  };
  Workload workload(config, /*seed=*/7);
  std::vector<Computed> earlier;
  Hits hits;
  for (int i = 0; i < num_requests; ++i) {
    auto request = std::make_shared<Request>(*workload.NextRequest());
    request->sampling = SamplingParams{};
    expected = Expect(*request, 0, config.max_model_len);
    if (!h.scheduler.Add(request).ok()) continue;  // too long: the workload has such
    hits.possible += PossibleHit(*request, earlier);
    h.RunToEnd();
    h.TakeEvents();
    workload.Remember(expected.tokens, request->cache_salt);
    expected.tokens.pop_back();  // the last token is never run
    earlier.push_back({request->cache_salt, expected.tokens});
  }
  hits.found = h.scheduler.stats().blocks.prefix_hit_tokens;
  return hits;
}

TEST(PrefixQualityTest, ALargePoolFindsAllThereIs) {
  const Hits hits = RunWorkload(/*num_requests=*/200, /*num_blocks=*/5'000, {{}});
  EXPECT_GT(hits.possible, 4'000);
  EXPECT_EQ(hits.found, hits.possible);
}

// A window of eight tokens keeps its blocks too, once they are computed.
TEST(PrefixQualityTest, ALargePoolFindsAllThereIsForWindowedGroupsToo) {
  const Hits hits =
      RunWorkload(/*num_requests=*/200, /*num_blocks=*/10'000, {{}, {.sliding_window = 8}});
  EXPECT_EQ(hits.found, hits.possible);
}

// Room for about eight conversations: what was used last is what is used next, so a good order of
// eviction still finds most. (Reusing the last released blocks first fails this.)
TEST(PrefixQualityTest, ASmallPoolKeepsWhatIsUsed) {
  const Hits hits = RunWorkload(/*num_requests=*/600, /*num_blocks=*/200, {{}});
  EXPECT_GE(hits.found, hits.possible * 8 / 10);
}

}  // namespace
}  // namespace quire::sim

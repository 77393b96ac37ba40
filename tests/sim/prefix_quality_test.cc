// How much the prefix cache finds, which correctness tests do not see. The workload has popular
// documents, conversations that go on, and unrelated prompts, one request after the other. The most
// that could be found is computed only from the token sequences.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
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

SchedulerConfig Config() {
  SchedulerConfig config;
  config.max_model_len = 96;
  return config;
}

BlockManagerConfig Blocks(int64_t num_blocks, std::vector<KvSpec> groups) {
  BlockManagerConfig blocks;
  blocks.num_blocks = num_blocks;
  blocks.block_size = kBlockSize;
  blocks.groups = std::move(groups);
  return blocks;
}

using Possible = std::function<int64_t(const Request&, const std::vector<Computed>& earlier)>;

Hits RunWorkload(int num_requests, const SchedulerConfig& config, const BlockManagerConfig& blocks,
                 const Possible& possible = PossibleHit) {
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
    hits.possible += possible(*request, earlier);
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
  const Hits hits = RunWorkload(/*num_requests=*/200, Config(), Blocks(/*num_blocks=*/5'000, {{}}));
  EXPECT_GT(hits.possible, 4'000);
  EXPECT_EQ(hits.found, hits.possible);
}

// A window of eight tokens keeps its blocks too, once they are computed.
TEST(PrefixQualityTest, ALargePoolFindsAllThereIsForWindowedGroupsToo) {
  const Hits hits = RunWorkload(/*num_requests=*/200, Config(),
                                Blocks(/*num_blocks=*/10'000, {{}, {.sliding_window = 8}}));
  EXPECT_EQ(hits.found, hits.possible);
}

// Room for about eight conversations: what was used last is what is used next, so a good order of
// eviction still finds most. (Reusing the last released blocks first fails this.)
TEST(PrefixQualityTest, ASmallPoolKeepsWhatIsUsed) {
  const Hits hits = RunWorkload(/*num_requests=*/600, Config(), Blocks(/*num_blocks=*/200, {{}}));
  EXPECT_GE(hits.found, hits.possible * 8 / 10);
}

// A model with states. Its snapshots, by what snapshot_plan.h promises: where the prompt ends,
// where it parted from what was cached, and at intervals.
constexpr int64_t kGrid = 8;
constexpr int64_t kInterval = 24;

BlockManagerConfig BlocksAndStates(int64_t num_snapshots) {
  BlockManagerConfig blocks = Blocks(/*num_blocks=*/5'000, {{}});
  blocks.num_reserved_states = 2;
  blocks.num_state_slots = blocks.num_reserved_states + num_snapshots;
  blocks.snapshot_grid = kGrid;
  return blocks;
}

SchedulerConfig ConfigOfSnapshots() {
  SchedulerConfig config = Config();
  config.max_num_seqs = 2;
  config.snapshot_interval = kInterval;
  return config;
}

// Also notes where this request will leave snapshots.
class SnapshotOracle {
 public:
  int64_t operator()(const Request& request, const std::vector<Computed>& earlier) {
    const int64_t num_prompt_tokens = request.prompt.size();
    const auto on_grid = [](int64_t num_tokens) { return num_tokens / kGrid * kGrid; };
    int64_t best = 0;
    for (size_t i = 0; i < earlier.size(); ++i) {
      const std::vector<TokenId>& tokens = earlier[i].tokens;
      if (earlier[i].salt != request.cache_salt) continue;
      const auto [end, unused] =
          std::mismatch(request.prompt.begin(), request.prompt.end(), tokens.begin(), tokens.end());
      const int64_t num_common = end - request.prompt.begin();
      for (int64_t position = kGrid; position <= num_common; position += kGrid) {
        const bool is_kept = position % kInterval == 0 || kept_[i].contains(position);
        if (is_kept && position < num_prompt_tokens) best = std::max(best, position);
      }
    }
    kept_.push_back({on_grid(num_prompt_tokens - 1), on_grid(num_prompt_tokens),
                     on_grid(PossibleHit(request, earlier))});
    return best;
  }

 private:
  std::vector<std::set<int64_t>> kept_;  // of each earlier request
};

TEST(SnapshotQualityTest, ManySlotsFindEverySnapshotThatWasPlanned) {
  SnapshotOracle oracle;
  const Hits hits = RunWorkload(
      /*num_requests=*/200, ConfigOfSnapshots(), BlocksAndStates(1'000),
      [&](const auto& request, const auto& earlier) { return oracle(request, earlier); });
  EXPECT_GT(hits.possible, 2'000);
  EXPECT_EQ(hits.found, hits.possible);
}

TEST(SnapshotQualityTest, SnapshotsStandWhereTheyAreUsed) {
  const Hits hits = RunWorkload(/*num_requests=*/200, ConfigOfSnapshots(), BlocksAndStates(1'000));
  EXPECT_GE(hits.found, hits.possible * 8 / 10);
}

// Fewer than the documents and conversations that are in use need. (Reusing the latest first finds
// a third.)
TEST(SnapshotQualityTest, AFewSlotsKeepWhatIsUsed) {
  const Hits hits = RunWorkload(/*num_requests=*/600, ConfigOfSnapshots(), BlocksAndStates(16));
  EXPECT_GE(hits.found, hits.possible / 2);
}

}  // namespace
}  // namespace quire::sim

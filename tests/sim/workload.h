// Random configurations and requests for the simulator, all from one seed: shared prefixes of
// popular conversations, multi-turn prompts, one-token and over-long prompts, n > 1, priorities,
// stop tokens, salts.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "kvcache/block_manager.h"
#include "scheduler/request.h"
#include "scheduler/scheduler.h"

namespace quire::sim {

// splitmix64: small, fast, and the same everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  // Uniform in [low, high].
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Next() % static_cast<uint64_t>(high - low + 1));
  }
  bool OneIn(int64_t n) { return Between(1, n) == 1; }

 private:
  uint64_t state_;
};

// The most blocks that a sequence holds at once, with two steps of `budget` tokens in flight;
// independent of BlockManager's own answer.
int64_t MostBlocks(const BlockManagerConfig& blocks, int64_t num_tokens, int64_t budget);

// Flows have fixed weights.
inline int32_t WeightOf(uint64_t flow) { return static_cast<int32_t>(flow % 5 + 1); }

struct RequestMix {
  int64_t priority_period = 5;    // one of this many requests has a priority of its own
  bool short_prompts = false;     // and long answers: then pools run short while they grow
  uint64_t num_flows = 1;         // 1: flow 0; else also many that come once
  int64_t constraint_period = 0;  // one of this many requests has a constraint; 0: none has
};

struct Scenario {
  SchedulerConfig scheduler;
  BlockManagerConfig blocks;
  int64_t lookahead = 0;
  int64_t max_delay = 0;       // rounds until the device has completed a step, at most
  int64_t arrival_period = 1;  // a request arrives in one of this many rounds
  RequestMix requests;
  // Cancels and stalls; they can hide a livelock, because they remove the sequence that is stuck.
  bool disturbed = true;
  int64_t failure_period = 0;  // one of this many rounds has a device error; 0: none has
};

// Pools are tight: from just enough for the longest sequence to twice that.
Scenario RandomScenario(Random* random);

class Workload {
 public:
  Workload(const SchedulerConfig& config, uint64_t seed, const RequestMix& mix = {})
      : config_(config), mix_(mix), random_(seed) {}

  std::shared_ptr<const Request> NextRequest();

  // A later request may continue this conversation.
  void Remember(std::vector<TokenId> tokens, const std::string& salt);

 private:
  uint64_t NextFlow();
  std::vector<TokenId> NextPrompt(std::string* salt);
  void Spoil(Request* request);

  struct Conversation {
    std::vector<TokenId> tokens;
    std::string salt;
  };

  const SchedulerConfig config_;
  const RequestMix mix_;
  Random random_;
  RequestId next_id_ = 1;
  std::deque<Conversation> conversations_;  // the last few that finished
};

}  // namespace quire::sim

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

struct Scenario {
  SchedulerConfig scheduler;
  BlockManagerConfig blocks;
  int64_t lookahead = 0;
  int64_t arrival_period = 1;  // a request arrives in one of so many steps
};

// Pools are tight: from just enough for the longest sequence to a few times that.
Scenario RandomScenario(Random* random);

class Workload {
 public:
  Workload(const SchedulerConfig& config, uint64_t seed) : config_(config), random_(seed) {}

  std::shared_ptr<const Request> NextRequest();

  // A later request may continue this conversation.
  void Remember(std::vector<TokenId> tokens, const std::string& salt);

 private:
  std::vector<TokenId> NextPrompt(std::string* salt);

  struct Conversation {
    std::vector<TokenId> tokens;
    std::string salt;
  };

  const SchedulerConfig config_;
  Random random_;
  RequestId next_id_ = 1;
  std::deque<Conversation> conversations_;  // the last few that finished
};

}  // namespace quire::sim

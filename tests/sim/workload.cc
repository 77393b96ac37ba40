#include "tests/sim/workload.h"

#include <algorithm>
#include <utility>

#include "tests/sim/oracle.h"

namespace quire::sim {

uint64_t Random::Next() {
  state_ += 0x9e3779b97f4a7c15u;
  uint64_t x = state_;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

Scenario RandomScenario(Random* random) {
  Scenario scenario;
  SchedulerConfig& config = scenario.scheduler;
  config.max_num_seqs = random->Between(1, 10);
  config.max_num_batched_tokens = config.max_num_seqs + random->Between(0, 40);
  config.max_num_partial_prefills = random->Between(1, 4);
  config.max_model_len = random->Between(12, 96);
  config.max_waiting_requests = random->Between(4, 24);
  config.max_waiting_tokens = random->Between(2, 12) * config.max_model_len;

  BlockManagerConfig& blocks = scenario.blocks;
  blocks.block_size = 1 << random->Between(0, 4);
  blocks.groups.clear();
  const int64_t num_groups = random->OneIn(2) ? 1 : random->Between(2, 3);
  for (int64_t group = 0; group < num_groups; ++group) {
    const bool windowed = group > 0 || random->OneIn(5);
    blocks.groups.push_back({windowed ? random->Between(1, 40) : 0});
  }
  blocks.enable_prefix_caching = !random->OneIn(6);
  blocks.hash_context = "model";
  blocks.hash_bits_for_test = random->OneIn(3) ? static_cast<int>(random->Between(1, 6)) : 0;
  const int64_t longest = CeilDiv<int64_t>(config.max_model_len, blocks.block_size) * num_groups;
  blocks.num_blocks = longest + longest * random->Between(0, 6) / 4 + random->Between(0, 3);
  if (random->OneIn(8)) blocks.num_blocks = std::max<int64_t>(longest * 2 / 3, 1);

  scenario.lookahead = random->Between(0, 1);
  scenario.arrival_period = random->Between(1, 8);
  return scenario;
}

std::vector<TokenId> Workload::NextPrompt(std::string* salt) {
  *salt = random_.OneIn(4) ? "tenant" : "";
  std::vector<TokenId> prompt;
  if (!conversations_.empty() && random_.OneIn(3)) {
    const auto& earlier = conversations_[random_.Between(0, conversations_.size() - 1)];
    prompt = earlier.tokens;
    *salt = earlier.salt;
  } else if (!random_.OneIn(4)) {
    // Popular documents: the first is taken half the time, the second a quarter, and so on.
    uint64_t document = 0;
    while (document < 5 && random_.OneIn(2)) ++document;
    const int64_t length = random_.Between(1, config_.max_model_len);
    Random words(document);
    for (int64_t i = 0; i < length; ++i) {
      prompt.push_back(static_cast<TokenId>(words.Between(0, kVocabSize - 1)));
    }
  }
  const int64_t num_own = random_.OneIn(3) ? 1 : random_.Between(1, config_.max_model_len / 3);
  for (int64_t i = 0; i < num_own; ++i) {
    prompt.push_back(static_cast<TokenId>(random_.Between(0, kVocabSize - 1)));
  }
  const int64_t longest = config_.max_model_len - (random_.OneIn(30) ? 0 : 1);
  if (static_cast<int64_t>(prompt.size()) > longest) prompt.resize(longest);
  return prompt;
}

std::shared_ptr<const Request> Workload::NextRequest() {
  auto request = std::make_shared<Request>();
  request->id = next_id_++;
  request->prompt = NextPrompt(&request->cache_salt);
  request->priority = random_.OneIn(5) ? static_cast<int32_t>(random_.Between(-1, 1)) : 0;
  request->sampling.n = random_.OneIn(6) ? static_cast<int32_t>(random_.Between(2, 4)) : 1;
  if (random_.OneIn(12)) request->sampling.prompt_logprobs = 0;
  StopConditions& stop = request->stop;
  stop.max_tokens = random_.OneIn(4) ? random_.Between(1, 3) : random_.Between(1, 60);
  if (!random_.OneIn(3)) stop.eos_token_ids = {0};
  if (random_.OneIn(3)) stop.stop_token_ids = {static_cast<TokenId>(random_.Between(1, 5)), 7};
  if (random_.OneIn(4)) stop.min_tokens = random_.Between(1, 12);
  return request;
}

void Workload::Remember(std::vector<TokenId> tokens, const std::string& salt) {
  conversations_.push_back({std::move(tokens), salt});
  if (conversations_.size() > 8) conversations_.pop_front();
}

}  // namespace quire::sim

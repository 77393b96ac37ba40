#include "tests/sim/workload.h"

#include <algorithm>
#include <utility>

#include "tests/sim/oracle.h"
#include "tests/sim/sim_constraint.h"

namespace quire::sim {

uint64_t Random::Next() {
  state_ += 0x9e3779b97f4a7c15u;
  uint64_t x = state_;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

int64_t MostBlocks(const BlockManagerConfig& blocks, int64_t num_tokens, int64_t budget) {
  int64_t most = 0;
  for (const KvSpec& group : blocks.groups) {
    const int64_t all = (num_tokens + blocks.block_size - 1) / blocks.block_size;
    const int64_t seen = group.sliding_window - 1 + 2 * budget;
    // A stretch of tokens that begins anywhere touches one block more than it fills.
    const int64_t in_window = (seen + blocks.block_size - 1) / blocks.block_size + 1;
    most += group.sliding_window > 0 ? std::min(all, in_window) : all;
  }
  return most;
}

Scenario RandomScenario(Random* random) {
  Scenario scenario;
  SchedulerConfig& config = scenario.scheduler;
  config.max_num_seqs = random->OneIn(8) ? 1 : random->Between(2, 12);
  config.max_num_batched_tokens = config.max_num_seqs + random->Between(0, 40);
  config.max_num_partial_prefills = random->Between(1, 4);
  config.max_num_passed = random->Between(1, 16);
  config.max_model_len = random->Between(12, 80);
  config.max_num_queued_reqs = random->Between(4, 24);
  config.max_num_queued_tokens = random->Between(2, 12) * config.max_model_len;

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
  // The blocks that the longest sequence may hold; half of the pools have hardly more.
  const int64_t longest = MostBlocks(blocks, config.max_model_len, config.max_num_batched_tokens);
  const bool tight = random->OneIn(2);
  blocks.num_blocks = longest + random->Between(0, tight ? longest / 8 : longest);
  if (random->OneIn(8)) blocks.num_blocks = std::max<int64_t>(longest * 2 / 3, 1);

  scenario.lookahead = random->Between(0, 1);
  scenario.max_delay = random->OneIn(2) ? 0 : random->Between(1, 3);
  scenario.arrival_period = random->Between(1, tight ? 4 : 8);
  scenario.requests.priority_period = random->Between(1, 6);
  scenario.requests.short_prompts = random->OneIn(2);
  scenario.requests.num_flows = random->OneIn(3) ? 1 : random->Between(2, 5);
  scenario.requests.constraint_period = random->OneIn(4) ? 0 : random->Between(1, 4);
  scenario.disturbed = !random->OneIn(6);
  scenario.failure_period = random->OneIn(4) ? random->Between(20, 80) : 0;

  if (random->Between(1, 5) > 2) return scenario;
  // A model with states; few slots more than the sequences need, or plenty.
  blocks.num_reserved_states = config.max_num_seqs;
  const int64_t most_spare = random->OneIn(2) ? 4 : 4 * config.max_num_seqs;
  blocks.num_state_slots = config.max_num_seqs + random->Between(0, most_spare);
  blocks.snapshot_grid = blocks.block_size;
  if (blocks.block_size < 8) blocks.snapshot_grid *= static_cast<int32_t>(random->Between(1, 4));
  config.snapshot_interval = blocks.snapshot_grid * random->Between(1, 4);
  return scenario;
}

// The first of several flows sends half of everything, the next half of the rest, and so on.
uint64_t Workload::NextFlow() {
  if (mix_.num_flows == 1) return 0;
  if (random_.OneIn(8)) return 1000 + next_id_;
  uint64_t flow = 0;
  while (flow + 1 < mix_.num_flows && random_.OneIn(2)) ++flow;
  return flow;
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
  if (mix_.short_prompts && prompt.size() > 20) prompt.resize(random_.Between(1, 20));
  if (static_cast<int64_t>(prompt.size()) > longest) prompt.resize(longest);
  return prompt;
}

// Makes it one that can never run.
void Workload::Spoil(Request* request) {
  switch (random_.Between(0, 3)) {
    case 0:
      request->prompt.clear();
      break;
    case 1:
      request->stop.max_tokens = 0;
      break;
    case 2:
      request->sampling.n = 0;
      break;
    default:
      request->sampling.n = 1'000;
      break;
  }
}

std::shared_ptr<const Request> Workload::NextRequest() {
  auto request = std::make_shared<Request>();
  request->id = next_id_++;
  request->flow.id = NextFlow();
  request->flow.weight = WeightOf(request->flow.id);
  request->prompt = NextPrompt(&request->cache_salt);
  request->priority =
      random_.OneIn(mix_.priority_period) ? static_cast<int32_t>(random_.Between(-2, 2)) : 0;
  request->sampling.n = random_.OneIn(6) ? static_cast<int32_t>(random_.Between(2, 4)) : 1;
  if (random_.OneIn(12)) request->sampling.prompt_logprobs = 0;
  if (random_.OneIn(12)) request->sampling.logprobs = 0;
  StopConditions& stop = request->stop;
  stop.max_tokens = random_.OneIn(4) ? random_.Between(1, 3) : random_.Between(1, 60);
  if (mix_.short_prompts) stop.max_tokens = random_.Between(1, config_.max_model_len);
  if (!random_.OneIn(mix_.short_prompts ? 4 : 3)) stop.eos_token_ids = {0};
  if (random_.OneIn(3)) stop.stop_token_ids = {static_cast<TokenId>(random_.Between(1, 5)), 7};
  if (random_.OneIn(4)) stop.min_tokens = random_.Between(1, 12);
  if (mix_.constraint_period > 0 && random_.OneIn(mix_.constraint_period)) {
    request->constraint = std::make_shared<SimConstraints>(random_.Next());
  }
  if (random_.OneIn(100)) Spoil(request.get());
  return request;
}

void Workload::Remember(std::vector<TokenId> tokens, const std::string& salt) {
  conversations_.push_back({std::move(tokens), salt});
  if (conversations_.size() > 8) conversations_.pop_front();
}

}  // namespace quire::sim

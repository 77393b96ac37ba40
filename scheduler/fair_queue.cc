#include "scheduler/fair_queue.h"

#include <algorithm>
#include <utility>

#include "kernels/base/check.h"

namespace quire {

// Keeps order_ sorted while `change` changes how far the flow has come. Alone in it, a flow need
// not be moved.
template <typename Change>
void FairQueue::Reorder(FlowState* flow, const Change& change) {
  const bool moves = !flow->waiting.empty() && order_.size() > 1;
  if (moves) CHECK_EQ(order_.erase(flow), size_t{1});
  change();
  if (moves) order_.insert(flow);
}

FlowState* FairQueue::Join(const RequestFlow& flow) {
  CHECK_GE(flow.weight, 1);
  CHECK_LE(flow.weight, kMaxFlowWeight);
  std::unique_ptr<FlowState>& state = flows_[flow.id];
  if (state == nullptr) {
    state = std::make_unique<FlowState>();
    state->id = flow.id;
  } else if (state->num_sequences == 0) {
    CHECK_EQ(idle_.erase(state.get()), size_t{1});
  }
  if (state->num_sequences++ == 0) {
    ++num_active_;
    sum_of_weights_ += state->weight;
    state->served = std::max(state->served, start_);
    state->turn = next_turn_++;
  }
  if (state->weight != flow.weight) {
    sum_of_weights_ += flow.weight - state->weight;
    Reorder(state.get(), [&] { state->weight = flow.weight; });
  }
  return state.get();
}

void FairQueue::Leave(FlowState* flow) {
  CHECK_GT(flow->num_sequences, 0);
  if (--flow->num_sequences > 0) return;
  CHECK(flow->waiting.empty());
  CHECK_EQ(flow->num_running, 0);
  CHECK_EQ(flow->num_admitted, 0);
  CHECK_EQ(flow->num_charged, 0);
  CHECK_EQ(flow->num_owed, 0);
  idle_.insert(flow);
  sum_of_weights_ -= flow->weight;
  // With nobody left nobody has had more than another.
  if (--num_active_ == 0) now_ = start_ = std::max(start_, (*idle_.rbegin())->served);
  ForgetIdle();
}

void FairQueue::ForgetIdle() {
  while (!idle_.empty() && ((*idle_.begin())->served <= start_ || idle_.size() > kMaxIdleFlows)) {
    const uint64_t id = (*idle_.begin())->id;
    idle_.erase(idle_.begin());
    flows_.erase(id);
  }
}

void FairQueue::Return(FlowState* flow) {
  if (flow->served < now_) Reorder(flow, [&] { flow->served = now_; });
}

void FairQueue::Push(Sequence* sequence) {
  FlowState* flow = sequence->flow;
  Return(flow);
  if (flow->waiting.empty()) {
    flow->turn = next_turn_++;
    flow->num_passed = 0;
    order_.insert(flow);
  }
  CHECK(flow->waiting.insert(sequence).second);
  ++num_waiting_;
}

void FairQueue::Pop(Sequence* sequence) {
  FlowState* flow = sequence->flow;
  CHECK_EQ(flow->waiting.erase(sequence), size_t{1});
  --num_waiting_;
  if (!flow->waiting.empty()) return;
  // order_ compares by how far it has come, which has not changed.
  CHECK_EQ(order_.erase(flow), size_t{1});
}

void FairQueue::Admit(Sequence* sequence) {
  FlowState* flow = sequence->flow;
  sequence->num_admitted = sequence->num_to_submit();
  ++flow->num_running;
  flow->num_passed = 0;
  Reorder(flow, [&] { flow->num_admitted += sequence->num_admitted; });
}

void FairQueue::Stop(Sequence* sequence) {
  FlowState* flow = sequence->flow;
  EndClaim(sequence);
  --flow->num_running;
  Return(flow);  // if it was paused, the flow may have waited for it
  Reorder(flow, [&] { flow->num_admitted -= std::exchange(sequence->num_admitted, 0); });
}

std::vector<FlowState*> FairQueue::Claims() const {
  std::vector<FlowState*> claims;
  for (FlowState* flow : order_) {
    if (HasClaim(*flow)) claims.push_back(flow);
  }
  std::stable_sort(claims.begin(), claims.end(), [](const FlowState* a, const FlowState* b) {
    return a->num_passed > b->num_passed;
  });
  return claims;
}

void FairQueue::BeginClaim(Sequence* sequence) {
  FlowState* flow = sequence->flow;
  sequence->is_owed = true;
  ++flow->num_owed;
  ++num_claims_;
  last_claim_ = std::max(last_claim_.value_or(flow->served), flow->served);
}

void FairQueue::EndClaim(Sequence* sequence) {
  if (std::exchange(sequence->is_owed, false)) --sequence->flow->num_owed;
}

void FairQueue::Serve(Sequence* sequence, int64_t num_tokens) {
  const int64_t num_settled = std::min(num_tokens, sequence->num_admitted);
  sequence->num_admitted -= num_settled;
  sequence->flow->num_settled += num_settled;
  Charge(sequence->flow, num_tokens);
}

void FairQueue::Charge(FlowState* flow, int64_t num_tokens) {
  if (num_tokens == 0) return;
  if (flow->num_charged == 0) touched_.push_back(flow);
  flow->num_charged += num_tokens;
}

void FairQueue::NoteWants(const FlowState& flow) {
  first_wanting_ = std::min(first_wanting_.value_or(flow.served), flow.served);
}

// Those who only generate do not hold now() back: more than a token of each sequence a step they
// cannot be given. Where nobody else is, they are who is served.
void FairQueue::EndStep() {
  if (!first_wanting_.has_value()) {
    for (const FlowState* flow : touched_) NoteWants(*flow);
  }
  now_ = std::max(now_, std::exchange(first_wanting_, std::nullopt).value_or(now_));
  now_ = std::max(now_, last_claim_.value_or(now_));
  int64_t num_tokens = 0;
  VirtualTime furthest = now_;
  for (FlowState* flow : touched_) {
    num_tokens += flow->num_charged;
    Reorder(flow, [&] {
      flow->num_admitted -= std::exchange(flow->num_settled, 0);
      flow->served = std::max(flow->served, now_) + flow->Cost(std::exchange(flow->num_charged, 0));
    });
    furthest = std::max(furthest, flow->served);
  }
  touched_.clear();
  if (std::exchange(last_claim_, std::nullopt).has_value()) {
    for (auto& [id, flow] : flows_) {
      if (flow->num_sequences > 0) Return(flow.get());
    }
  }
  if (num_tokens > 0) start_ += num_tokens * FlowState::kVirtualToken / sum_of_weights_;
  start_ = std::clamp(start_, now_, furthest);  // nobody begins behind all who are served
  ForgetIdle();
}

bool FairQueue::IsShort(const FlowState& flow, const FlowState& other) {
  const int64_t num_left = other.num_running - other.num_victims - 1;
  return (flow.num_running + 1) * other.weight <= num_left * flow.weight;
}

bool FairQueue::MayDisplace(const FlowState& flow, const FlowState& victim) const {
  return (HasClaim(flow) || flow.IsBefore(victim)) && IsShort(flow, victim);
}

const FlowState* FairQueue::MostRows() const {
  const FlowState* most = nullptr;
  for (const auto& [id, flow] : flows_) {
    if (flow->num_running < 2) continue;
    if (most == nullptr ||
        (flow->num_running - 1) * most->weight > (most->num_running - 1) * flow->weight) {
      most = flow.get();
    }
  }
  return most;
}

const FlowState* FairQueue::Find(uint64_t flow) const {
  const auto it = flows_.find(flow);
  return it == flows_.end() ? nullptr : it->second.get();
}

void FairQueue::CheckInvariants() const {
  size_t num_waiting = 0;
  size_t num_active = 0;
  int64_t sum_of_weights = 0;
  for (const auto& [id, flow] : flows_) {
    CHECK_EQ(id, flow->id);
    CHECK_EQ(order_.count(flow.get()), size_t{flow->waiting.empty() ? 0u : 1u});
    CHECK_EQ(idle_.count(flow.get()), size_t{flow->num_sequences == 0 ? 1u : 0u});
    CHECK_GE(flow->num_admitted, 0);
    CHECK_EQ(flow->num_victims, 0);
    CHECK_GE(flow->num_owed, 0);
    CHECK_LE(flow->num_owed, flow->num_running);
    CHECK_LE(flow->num_running + static_cast<int64_t>(flow->waiting.size()), flow->num_sequences);
    num_waiting += flow->waiting.size();
    num_active += flow->num_sequences > 0 ? 1 : 0;
    sum_of_weights += flow->num_sequences > 0 ? flow->weight : 0;
  }
  CHECK_EQ(num_waiting, num_waiting_);
  CHECK_EQ(num_active, num_active_);
  CHECK_EQ(sum_of_weights, sum_of_weights_);
  CHECK_LE(now_, start_);
  CHECK_LE(idle_.size(), num_active == 0 ? 0 : kMaxIdleFlows);
  CHECK(touched_.empty());
  CHECK(std::is_sorted(order_.begin(), order_.end(), IsBefore()));
}

}  // namespace quire

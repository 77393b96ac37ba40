// FairQueue: the waiting sequences, by flow, and how far each flow has come. If flows ask for more
// than there is, they share it by their weights, counted in tokens: computed tokens of prompts, and
// generated ones. This is start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996) with the
// tokens of a step as packets. Generated tokens can only be charged as they come, as in the virtual
// token counter (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024).
//
// A flow's virtual time is the number of tokens that it was served, divided by its weight. The flow
// with the least virtual time goes first. now() is the least virtual time of all flows with more to
// run; no such flow is behind it, so none saves up. A flow that comes (back) begins at start(),
// which moves on as all flows do on average. So even an endless row of newcomers leaves the others
// their share. If a flow leaves ahead of start(), its virtual time is remembered until start() has
// come so far, for at most kMaxIdleFlows flows. So memory is bounded by the number of sequences,
// whatever number of flows has been seen.
//
// Rows are shared, too. A flow that has had more tokens may wait for rows, but not for long. When
// it was passed over in max_num_passed steps, while another flow had too many rows beside it, it
// has a claim, and keeps it until it has a row. Its next sequence is let in before all others and
// makes another give way; until it has a token no flow takes its blocks. The advantage that other
// flows had saved up against it is then forgotten: they cannot get more rows than they have, and
// would keep it out again. Engine thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "scheduler/request.h"
#include "scheduler/sequence.h"

namespace quire {

using VirtualTime = int64_t;  // kVirtualToken for each token of a flow of weight 1

struct FlowState {
  uint64_t id = 0;
  int64_t weight = 1;
  VirtualTime served = 0;
  int64_t num_admitted = 0;  // tokens for which its running sequences were let in, not yet served
  int64_t num_sequences = 0;
  int64_t num_running = 0;
  int64_t num_victims = 0;  // its victims of the preemption that is being decided
  int64_t num_charged = 0;  // tokens of the step that is being decided, ..
  int64_t num_settled = 0;  // .. and those of them that num_admitted has counted
  uint64_t turn = 0;        // among flows that have come equally far: when it came or began to wait
  int64_t num_passed = 0;   // steps in a row in which another had too many rows and this got none
  int64_t num_owed = 0;     // running sequences that a claim let in and that have no token since
  absl::btree_set<Sequence*, OutranksLess> waiting;  // priority, then arrival

  static constexpr VirtualTime kVirtualToken = 1 << 16;
  VirtualTime Cost(int64_t num_tokens) const { return num_tokens * kVirtualToken / weight; }
  // How far it will have come when its admitted tokens are served.
  VirtualTime committed() const { return served + Cost(num_admitted); }
  // Two total orders of flows: which one lets in a sequence next, and which one goes on with its
  // sequences. The second order decides about chunks and about blocks; otherwise a flow could get
  // the one and lack the other.
  bool IsBefore(const FlowState& other) const {
    return std::tuple(committed(), turn) < std::tuple(other.committed(), other.turn);
  }
  bool IsBehind(const FlowState& other) const {
    return std::tuple(num_owed == 0, served, turn) <
           std::tuple(other.num_owed == 0, other.served, other.turn);
  }
};

class FairQueue {
 public:
  static constexpr size_t kMaxIdleFlows = 256;

  explicit FairQueue(int64_t max_num_passed) : max_num_passed_(max_num_passed) {}

  struct IsBefore {
    bool operator()(const FlowState* a, const FlowState* b) const { return a->IsBefore(*b); }
  };
  using FlowOrder = absl::btree_set<FlowState*, IsBefore>;

  // A sequence of the flow begins, and ends. The state is valid while the flow has sequences.
  FlowState* Join(const RequestFlow& flow);
  void Leave(FlowState* flow);

  // A sequence of the flow that had nothing to run has something to run again.
  void Return(FlowState* flow);

  void Push(Sequence* sequence);  // begins to wait
  void Pop(Sequence* sequence);

  // A sequence got a row, for the tokens that it knows beyond the cached ones; or it lost its row.
  void Admit(Sequence* sequence);
  void Stop(Sequence* sequence);

  bool HasClaim(const FlowState& flow) const { return flow.num_passed >= max_num_passed_; }
  // Flows with a claim. The flow that was passed over longest comes first.
  std::vector<FlowState*> Claims() const;
  // A sequence got its row by a claim; it has its token or no longer needs one.
  void BeginClaim(Sequence* sequence);
  void EndClaim(Sequence* sequence);

  // Charges the sequence's flow for its tokens in the step that is being decided; the charge counts
  // when the step ends.
  void Serve(Sequence* sequence, int64_t num_tokens);
  void Charge(FlowState* flow, int64_t num_tokens);
  void NoteWants(const FlowState& flow);  // the flow has more to run than it gets
  void EndStep();

  // Whether `other`, after it has lost `num_victims` of its running sequences and one more, still
  // has at least as many for its weight as `flow` with one more.
  static bool IsShort(const FlowState& flow, const FlowState& other);
  // A flow that has fewer rows for its weight than another may push out running sequences of the
  // other, if it has a claim or the other has come further. So two flows never push each other out
  // in turn.
  bool MayDisplace(const FlowState& flow, const FlowState& victim) const;
  // The flow with most rows for its weight, not counting one row; null when no flow has two.
  const FlowState* MostRows() const;

  // Flows with waiting sequences, in the order in which they let one in.
  const FlowOrder& flows() const { return order_; }
  bool IsShared() const { return num_active_ > 1; }
  size_t num_flows() const { return flows_.size(); }  // with idle ones that are remembered
  const FlowState* Find(uint64_t flow) const;         // or null
  size_t num_waiting() const { return num_waiting_; }
  VirtualTime now() const { return now_; }
  VirtualTime start() const { return start_; }
  int64_t num_claims() const { return num_claims_; }  // that let in a sequence, since start
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const auto& [id, flow] : flows_) visit(*flow);
  }
  void CheckInvariants() const;

 private:
  template <typename Change>
  void Reorder(FlowState* flow, const Change& change);
  void ForgetIdle();

  const int64_t max_num_passed_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<FlowState>> flows_;
  FlowOrder order_;
  FlowOrder idle_;                   // without sequences
  std::vector<FlowState*> touched_;  // in the step that is being decided
  std::optional<VirtualTime> first_wanting_;
  std::optional<VirtualTime> last_claim_;  // of the flow that had come furthest when it claimed
  int64_t num_claims_ = 0;
  VirtualTime now_ = 0;
  VirtualTime start_ = 0;
  int64_t sum_of_weights_ = 0;  // of flows with sequences, ..
  size_t num_active_ = 0;       // .. this many
  size_t num_waiting_ = 0;
  uint64_t next_turn_ = 0;
};

}  // namespace quire

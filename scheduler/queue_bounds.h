// QueueBounds: how many places of a waiting queue each flow has taken, and whether it may take
// more. A continuation takes one place and its prompt's tokens. Not synchronised; nothing here
// depends on how many flows there are.
#pragma once

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "scheduler/request.h"

namespace quire {

struct QueueLoad {
  int64_t num_places = 0;
  int64_t num_tokens = 0;  // of prompts
};

// A sequence has left the queue to run or to end, or has come back into it.
struct QueueChange {
  RequestFlow flow;
  QueueLoad load;
  bool enters;
};

// The places and tokens that a request takes before it is scheduled.
QueueLoad LoadOf(const Request& request);

// Whether a flow may come to hold `held_then` if `free_then` is then left free: at most three times
// as much.
bool IsWithinShare(int64_t held_then, int64_t free_then);

class QueueBounds {
 public:
  QueueBounds(int64_t max_num_queued_reqs, int64_t max_num_queued_tokens)
      : most_{max_num_queued_reqs, max_num_queued_tokens} {}

  // INVALID_ARGUMENT when the request would not even fit into an empty queue, RESOURCE_EXHAUSTED
  // when it does not fit now. No flow may hold more than three times what it leaves free (dynamic
  // thresholds: Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet
  // Switches", IEEE/ACM ToN 1998): a single flow takes three quarters of the queue, k flows leave
  // 1 / (3 k + 1) of it to the next, and no accepted request need be dropped. A flow with
  // nothing in the queue may always take one place. Flow 0 is bounded only by the whole queue.
  absl::Status Check(const Request& request) const {
    return Check(absl::MakeConstSpan(&request, 1));
  }
  // The same for several requests of one flow, which are taken together or not at all.
  absl::Status Check(absl::Span<const Request> requests) const;
  // The same for that many continuations before their prompts are known, as if each prompt had one
  // token.
  absl::Status CheckRoom(const RequestFlow& flow, int64_t num_continuations) const;

  void Enter(const RequestFlow& flow, const QueueLoad& load);
  void Leave(const RequestFlow& flow, const QueueLoad& load);  // `load` has entered before

  const QueueLoad& all() const { return all_; }
  QueueLoad HeldBy(uint64_t flow) const;

 private:
  bool Fits(const QueueLoad& all, const QueueLoad& load) const;
  // `asked` begins the sentence that refuses a request that can never fit.
  absl::Status CheckLoad(const RequestFlow& flow, const QueueLoad& load,
                         absl::FunctionRef<std::string()> asked) const;

  const QueueLoad most_;
  QueueLoad all_;
  absl::flat_hash_map<uint64_t, QueueLoad> held_;  // by flows that hold something
};

}  // namespace quire

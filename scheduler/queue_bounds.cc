#include "scheduler/queue_bounds.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "kernels/base/types.h"

namespace quire {
namespace {

constexpr int64_t kMostOverFree = 3;

// Whether a flow that holds `held` of the `all` that is taken may take `load` more.
bool MayTake(const QueueLoad& held, const QueueLoad& all, const QueueLoad& load,
             const QueueLoad& most) {
  if (held.num_places == 0 && load.num_places == 1) return true;
  return IsWithinShare(held.num_places + load.num_places,
                       most.num_places - all.num_places - load.num_places) &&
         IsWithinShare(held.num_tokens + load.num_tokens,
                       most.num_tokens - all.num_tokens - load.num_tokens);
}

QueueLoad LoadOfAll(absl::Span<const Request> requests) {
  QueueLoad sum;
  for (const Request& request : requests) {
    const QueueLoad load = LoadOf(request);
    sum.num_places += load.num_places;
    sum.num_tokens += load.num_tokens;
  }
  return sum;
}

// Says what `requests` ask for, as the beginning of a sentence.
std::string Asked(absl::Span<const Request> requests) {
  const Request& first = requests.front();
  if (requests.size() == 1) {
    return absl::StrCat("n is ", first.sampling.n, " with a prompt of ", first.prompt.size(),
                        " tokens");
  }
  const QueueLoad load = LoadOfAll(requests);
  return absl::StrCat("the ", requests.size(), " prompts ask for ", load.num_places,
                      " continuations of together ", load.num_tokens, " prompt tokens");
}

}  // namespace

bool IsWithinShare(int64_t held_then, int64_t free_then) {
  return CeilDiv(held_then, kMostOverFree) <= free_then;
}

QueueLoad LoadOf(const Request& request) {
  const int64_t n = request.sampling.n;
  return {n, n * static_cast<int64_t>(request.prompt.size())};
}

bool QueueBounds::Fits(const QueueLoad& all, const QueueLoad& load) const {
  return all.num_places + load.num_places <= most_.num_places &&
         all.num_tokens + load.num_tokens <= most_.num_tokens;
}

absl::Status QueueBounds::Check(absl::Span<const Request> requests) const {
  CHECK(!requests.empty());
  const RequestFlow& flow = requests.front().flow;
  for (const Request& request : requests) CHECK_EQ(request.flow.id, flow.id);
  return CheckLoad(flow, LoadOfAll(requests), [requests] { return Asked(requests); });
}

absl::Status QueueBounds::CheckRoom(const RequestFlow& flow, int64_t num_continuations) const {
  return CheckLoad(flow, {.num_places = num_continuations, .num_tokens = num_continuations},
                   [=] { return absl::StrCat(num_continuations, " continuations are asked for"); });
}

absl::Status QueueBounds::CheckLoad(const RequestFlow& flow, const QueueLoad& load,
                                    absl::FunctionRef<std::string()> asked) const {
  const bool is_shared = flow.id != 0;
  if (load.num_places < 1 || !Fits({}, load) || (is_shared && !MayTake({}, {}, load, most_))) {
    return absl::InvalidArgumentError(
        absl::StrCat(asked(), ", but the waiting queue holds at most ", most_.num_places,
                     " continuations of together ", most_.num_tokens, " prompt tokens",
                     is_shared ? ", three quarters of them of one client" : ""));
  }
  if (!Fits(all_, load)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the waiting queue is full: ", all_.num_places, " of ", most_.num_places, " requests and ",
        all_.num_tokens, " of ", most_.num_tokens, " prompt tokens are waiting; retry later"));
  }
  const QueueLoad held = HeldBy(flow.id);
  if (is_shared && !MayTake(held, all_, load, most_)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "your share of the waiting queue is full: ", held.num_places, " of your requests with ",
        held.num_tokens, " prompt tokens are waiting, and the rest of the ", most_.num_places,
        " places and ", most_.num_tokens, " prompt tokens is kept for others; retry later"));
  }
  return absl::OkStatus();
}

void QueueBounds::Enter(const RequestFlow& flow, const QueueLoad& load) {
  QueueLoad& held = held_[flow.id];
  for (QueueLoad* sum : {&held, &all_}) {
    sum->num_places += load.num_places;
    sum->num_tokens += load.num_tokens;
  }
}

void QueueBounds::Leave(const RequestFlow& flow, const QueueLoad& load) {
  const auto it = held_.find(flow.id);
  CHECK(it != held_.end());
  for (QueueLoad* sum : {&it->second, &all_}) {
    sum->num_places -= load.num_places;
    sum->num_tokens -= load.num_tokens;
    CHECK_GE(sum->num_places, 0);
    CHECK_GE(sum->num_tokens, 0);
  }
  if (it->second.num_places == 0) held_.erase(it);
}

QueueLoad QueueBounds::HeldBy(uint64_t flow) const {
  const auto it = held_.find(flow);
  return it == held_.end() ? QueueLoad{} : it->second;
}

}  // namespace quire

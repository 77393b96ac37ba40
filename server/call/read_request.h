// Reads the requests of calls where this holds up nobody: short ones at once, on the connection's
// loop, long ones in the work pool. A request waits for the pool once: parsing it, making its
// prompt and starting it are one piece of work.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kernels/base/clock.h"
#include "server/call/call.h"
#include "server/request/generate/generate_handler.h"
#include "server/request/generate/work_pool.h"
#include "server/request/limits.h"
#include "server/request/retry_pushback.h"

namespace quire {

// Calls `run(const absl::Status&)` once for a request of `num_bytes`, which holds
// `num_memory_bytes` while it waits. It gets an error if the call is cancelled while it waits, or
// if the pool takes no more.
template <typename Run>
void RunByLength(WorkPool* pool, const Call& call, size_t num_bytes, size_t num_memory_bytes,
                 Run run) {
  if (num_bytes <= kMaxInlineBytes) {
    run(absl::OkStatus());
  } else {
    pool->Add({num_memory_bytes, call.token(), call.cost(), std::move(run)});
  }
}

// The same, with `read(const absl::Status&, const std::string& bytes)`.
template <typename Read>
void ReadOrRefuse(WorkPool* pool, const Call& call, std::string bytes, Read read) {
  // A parsed request takes several times its text.
  constexpr size_t kMemoryPerByte = 2;
  const size_t num_bytes = bytes.size();
  auto held = std::make_shared<std::string>(std::move(bytes));
  RunByLength(pool, call, num_bytes, kMemoryPerByte * num_bytes,
              [held, read = std::move(read)](const absl::Status& status) { read(status, *held); });
}

// Calls `read(const std::string& bytes)` once, unless the call fails before.
template <typename Read>
void ReadRequest(WorkPool* pool, const std::shared_ptr<Call>& call, std::string bytes, Read read) {
  ReadOrRefuse(
      pool, *call, std::move(bytes),
      [call, read = std::move(read)](const absl::Status& status, const std::string& bytes) {
        if (status.ok()) {
          read(bytes);
        } else {
          call->Fail(status);
        }
      });
}

// Ends a call whose request does not begin.
inline void RefuseCall(GenerateHandler* handler, const Caller& caller, Call& call,
                       const absl::Status& status,
                       std::optional<RefusalReason> reason = std::nullopt) {
  handler->Refuse(caller, status, reason);
  call.Fail(WithRetryPushback(status));
}

// The caller of a request to generate, once the whole request is here. Nothing if the engine has no
// room for it: then the call ends before the request is read, so that refusing costs next to
// nothing.
inline std::optional<Caller> Admit(GenerateHandler* handler, Call& call) {
  call.SetTrace(handler->TraceOf(call.trace()));
  Caller caller = {call.principal(), call.token(), call.trace(), MonotonicNow()};
  caller.cost = call.cost();
  const absl::Status room = handler->CheckRoom(*caller.principal);
  if (room.ok()) return caller;
  RefuseCall(handler, caller, call, room);
  return std::nullopt;
}

}  // namespace quire

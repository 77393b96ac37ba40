// Requests of calls are read where they hold up nobody: short ones at once, on the connection's
// loop, long ones in the work pool, for which a request waits once: parsing it, making its prompt
// and starting it are one piece of work.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "server/call/call.h"
#include "server/request/generate/generate_handler.h"
#include "server/request/generate/work_pool.h"
#include "server/request/limits.h"

namespace quire {

// Calls `read(const std::string& bytes)` once, unless the call fails because it is cancelled or the
// pool takes no more.
template <typename Read>
void ReadRequest(WorkPool* pool, const std::shared_ptr<Call>& call, std::string bytes, Read read) {
  if (bytes.size() <= kMaxInlineBytes) {
    read(bytes);
    return;
  }
  // What is parsed takes several times its text.
  constexpr size_t kMemoryPerByte = 2;
  const size_t num_bytes = kMemoryPerByte * bytes.size();
  auto held = std::make_shared<std::string>(std::move(bytes));
  pool->Add({num_bytes, call->token(), call->cost(),
             [call, held, read = std::move(read)](const absl::Status& status) {
               if (status.ok()) {
                 read(*held);
               } else {
                 call->Fail(status);
               }
             }});
}

// The same for a request to generate: a caller for whom the engine has no room is refused before
// the request is read.
template <typename Read>
void ReadGeneration(GenerateHandler* handler, WorkPool* pool, const std::shared_ptr<Call>& call,
                    std::string bytes, Read read) {
  if (const absl::Status room = handler->CheckRoom(*call->principal()); !room.ok()) {
    call->Fail(room);
    return;
  }
  call->SetTrace(handler->TraceOf(call->trace()));
  ReadRequest(pool, call, std::move(bytes), std::move(read));
}

inline Caller CallerOf(const Call& call, bool is_id_of_call = false) {
  return {call.principal(), call.token(), call.trace(), is_id_of_call};
}

}  // namespace quire

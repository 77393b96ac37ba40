// A method that generates, whatever its messages: a request is converted for GenerateHandler, and
// its AnswerWriter converts the answer.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/call/grpc_call.h"
#include "server/call/messages.h"
#include "server/request/generate/generate_handler.h"

namespace quire {

// `Writer` is an AnswerWriter, made of (GrpcCallRef, const Request&). `convert` is
// `absl::StatusOr<v1::GenerateRequest>(Request)`.
template <typename Writer, typename Request, typename Convert>
GrpcMethod MakeGenerateMethod(std::string path, GenerateHandler* handler, Convert convert) {
  return {std::move(path), [handler, convert](const GrpcCallRef& call, const std::string& bytes) {
            // Before the message is even read: refusing costs next to nothing.
            if (const absl::Status room = handler->CheckRoom(*call->principal()); !room.ok()) {
              call->Finish(room);
              return;
            }
            absl::StatusOr<Request> message = Parse<Request>(bytes);
            if (!message.ok()) {
              call->Finish(message.status());
              return;
            }
            call->SetTrace(handler->TraceOf(call->trace()));
            auto writer = std::make_unique<Writer>(call, *message);
            absl::StatusOr<v1::GenerateRequest> request = convert(*std::move(message));
            if (request.ok()) {
              handler->Start({call->principal(), call->token(), call->cost(), call->trace()},
                             *std::move(request), std::move(writer));
            } else {
              writer->End(request.status(), {});
            }
          }};
}

}  // namespace quire

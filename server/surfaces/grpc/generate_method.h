// A method that generates, with any kind of messages: a request is converted for GenerateHandler,
// and its AnswerWriter converts the answer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/call/grpc_call.h"
#include "server/call/messages.h"
#include "server/call/read_request.h"
#include "server/request/generate/serving_context.h"

namespace quire {

// `Writer` is an AnswerWriter, made of (GrpcCallRef, const Request&). `convert` is
// `absl::StatusOr<Generation>(Request)`.
template <typename Writer, typename Request, typename Convert>
GrpcMethod MakeGenerateMethod(std::string path, const ServingContext& serving, Convert convert) {
  return {std::move(path), [handler = serving.generate, pool = serving.work_pool, convert](
                               const GrpcCallRef& call, const std::string& bytes) {
            std::optional<Caller> caller = Admit(handler, *call);
            if (!caller.has_value()) return;
            // Parsed here, so that a request that waits for the pool already has its id.
            absl::StatusOr<Request> message = Parse<Request>(bytes);
            if (!message.ok()) {
              RefuseCall(handler, *caller, *call, message.status());
              return;
            }
            if (bytes.size() > kMaxInlineBytes) {
              auto lease = handler->Enter(*caller, message->request_id());
              if (!lease.ok()) {
                RefuseCall(handler, *caller, *call, lease.status(),
                           GenerateHandler::ReasonOfCheck(lease.status()));
                return;
              }
              caller->lease = *std::move(lease);
            }
            const size_t num_memory_bytes = message->SpaceUsedLong();
            auto request = std::make_shared<Request>(*std::move(message));
            auto start = [handler, convert, call, caller = *std::move(caller),
                          request](const absl::Status& status) {
              if (!status.ok()) {
                RefuseCall(handler, caller, *call, status);
                return;
              }
              auto writer = std::make_unique<Writer>(call, *request);
              absl::StatusOr<Generation> asked = convert(std::move(*request));
              if (asked.ok()) {
                handler->Start(caller, *std::move(asked), std::move(writer));
              } else {
                RefuseCall(handler, caller, *call, asked.status());
              }
            };
            RunByLength(pool, *call, bytes.size(), num_memory_bytes, std::move(start));
          }};
}

}  // namespace quire

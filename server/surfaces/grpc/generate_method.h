// A method that generates, whatever its messages: a request is converted for GenerateHandler, and
// its AnswerWriter converts the answer.
#pragma once

#include <memory>
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
                               const GrpcCallRef& call, std::string bytes) {
            const auto start = [handler, convert, call](const std::string& bytes) {
              absl::StatusOr<Request> message = Parse<Request>(bytes);
              if (!message.ok()) {
                call->Fail(message.status());
                return;
              }
              auto writer = std::make_unique<Writer>(call, *message);
              absl::StatusOr<Generation> asked = convert(*std::move(message));
              if (asked.ok()) {
                handler->Start(CallerOf(*call), *std::move(asked), std::move(writer));
              } else {
                call->Fail(asked.status());
              }
            };
            ReadGeneration(handler, pool, call, std::move(bytes), start);
          }};
}

}  // namespace quire

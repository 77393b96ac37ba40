#include "server/surfaces/openai/body_routes.h"

#include <optional>
#include <utility>

#include "server/call/read_request.h"

namespace quire {

HttpRoute GenerateRoute(std::string path, const ServingContext& context, StartRequest start) {
  auto handle = [handler = context.generate, pool = context.work_pool, start = std::move(start)](
                    const HttpCallRef& call, HttpRequest request) {
    std::optional<Caller> caller = Admit(handler, *call);
    if (!caller.has_value()) return;
    ReadOrRefuse(pool, *call, std::move(request.body),
                 [handler, call, caller = *std::move(caller), &start](const absl::Status& status,
                                                                      const std::string& body) {
                   const absl::Status begun = status.ok() ? start(call, caller, body) : status;
                   if (!begun.ok()) RefuseCall(handler, caller, *call, begun);
                 });
  };
  return {"POST", std::move(path), Role::kInference, std::move(handle)};
}

HttpRoute ConvertRoute(
    std::string path, const ServingContext& context,
    std::function<absl::StatusOr<std::string>(const HttpCall& call, const std::string& body)>
        convert) {
  auto handle = [pool = context.work_pool, convert = std::move(convert)](const HttpCallRef& call,
                                                                         HttpRequest request) {
    ReadRequest(pool, call, std::move(request.body), [call, &convert](const std::string& body) {
      absl::StatusOr<std::string> answer = convert(*call, body);
      if (answer.ok()) {
        call->Answer({.body = *std::move(answer)});
      } else {
        call->Fail(answer.status());
      }
    });
  };
  return {"POST", std::move(path), Role::kInference, std::move(handle)};
}

}  // namespace quire

#include "server/surfaces/openai/body_routes.h"

#include <memory>
#include <utility>

#include "server/request/generate/generate_handler.h"
#include "server/request/generate/work_pool.h"
#include "server/request/limits.h"

namespace quire {

HttpRoute BodyRoute(std::string path, const ServingContext& context,
                    std::function<void(const HttpCallRef& call, const std::string& body)> work) {
  auto handle = [pool = context.work_pool, work = std::move(work)](const HttpCallRef& call,
                                                                   HttpRequest request) {
    if (request.body.size() <= kMaxInlineBytes) {
      work(call, request.body);
      return;
    }
    // JSON takes several times its text.
    constexpr size_t kMemoryPerByte = 2;
    const size_t num_bytes = kMemoryPerByte * request.body.size();
    auto body = std::make_shared<std::string>(std::move(request.body));
    pool->Add(
        {num_bytes, call->token(), call->cost(), [call, body, &work](const absl::Status& status) {
           if (status.ok()) {
             work(call, *body);
           } else {
             call->Fail(status);
           }
         }});
  };
  return {"POST", std::move(path), Role::kInference, std::move(handle)};
}

HttpRoute GenerateRoute(
    std::string path, const ServingContext& context,
    std::function<void(const HttpCallRef& call, const std::string& body)> work) {
  HttpRoute route = BodyRoute(std::move(path), context, std::move(work));
  route.handle = [generate = context.generate, inner = std::move(route.handle)](
                     const HttpCallRef& call, HttpRequest request) {
    if (const absl::Status room = generate->CheckRoom(*call->principal()); !room.ok()) {
      call->Fail(room);
      return;
    }
    call->SetTrace(generate->TraceOf(call->trace()));
    inner(call, std::move(request));
  };
  return route;
}

HttpRoute ConvertRoute(
    std::string path, const ServingContext& context,
    std::function<absl::StatusOr<std::string>(const HttpCall& call, const std::string& body)>
        convert) {
  return BodyRoute(
      std::move(path), context,
      [convert = std::move(convert)](const HttpCallRef& call, const std::string& body) {
        absl::StatusOr<std::string> answer = convert(*call, body);
        if (answer.ok()) {
          call->Answer({.body = *std::move(answer)});
        } else {
          call->Fail(answer.status());
        }
      });
}

}  // namespace quire

#include "server/surfaces/responses/responses_routes.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "server/call/read_request.h"
#include "server/request/generate/generate_handler.h"
#include "server/request/generate/tokenize.h"
#include "server/surfaces/openai/body_routes.h"
#include "server/surfaces/responses/responses_answer.h"
#include "server/surfaces/responses/responses_request.h"
#include "server/text/json_text.h"

namespace quire {

namespace {

absl::Status Start(const ServingContext& context, const HttpCallRef& call, Caller caller,
                   const std::string& body) {
  ASSIGN_OR_RETURN(ResponsesRequest request,
                   ParseResponses(body, *context.model, *context.answers, call->asked_id()));
  caller.is_id_of_call = request.format.id == call->asked_id();
  context.generate->Start(
      std::move(caller), std::move(request.asked),
      std::make_unique<ResponsesAnswer>(call, std::move(request.format), context.answers));
  return absl::OkStatus();
}

absl::StatusOr<std::string> CountTokens(const ServingContext& context, const HttpCall& call,
                                        const std::string& body) {
  ASSIGN_OR_RETURN(const Prompt asked, ParseInputTokens(body));
  ASSIGN_OR_RETURN(const TokenizedPrompt prompt,
                   TokenizePrompt(asked, kResponsesNames, *context.encoder, call.token().get()));
  return absl::StrCat(
      "{\"object\": \"response.input_tokens\", \"input_tokens\": ", prompt.ids.size(), "}");
}

// Answers clients that ask for an earlier response.
HttpRoute StoredRoute(std::string method) {
  return {std::move(method), "/v1/responses/*", Role::kInference,
          [](const HttpCallRef& call, const HttpRequest& request) {
            const std::string id = request.rest.substr(0, request.rest.find('/'));
            call->AnswerNow(ErrorAnswer(404, absl::StrCat("response with id ", JsonString(id),
                                                          " not found: this server stores none")));
          }};
}

}  // namespace

std::vector<HttpRoute> ResponsesRoutes(const ServingContext& context) {
  std::vector<HttpRoute> routes;
  routes.push_back(GenerateRoute(
      "/v1/responses", context,
      [context](const HttpCallRef& call, const Caller& caller, const std::string& body) {
        return Start(context, call, caller, body);
      }));
  routes.push_back(ConvertRoute("/v1/responses/input_tokens", context,
                                [context](const HttpCall& call, const std::string& body) {
                                  return CountTokens(context, call, body);
                                }));
  for (const char* method : {"GET", "DELETE", "POST"}) routes.push_back(StoredRoute(method));
  return routes;
}

}  // namespace quire

#include "server/surfaces/openai/openai_routes.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/base/status_macros.h"
#include "server/call/read_request.h"
#include "server/request/generate/tokenize.h"
#include "server/surfaces/openai/body_routes.h"
#include "server/surfaces/openai/openai_answer.h"
#include "server/surfaces/openai/openai_request.h"
#include "server/text/json_text.h"

namespace quire {

namespace {

absl::Status FillEchoes(const ServingContext& context, OpenAiRequest* request) {
  if (!request->format.echoes || request->format.is_chat) return absl::OkStatus();
  for (const Prompt& prompt : request->prompts) {
    if (const auto* text = std::get_if<TextPrompt>(&prompt)) {
      request->format.prompts.push_back(text->text);
      continue;
    }
    ASSIGN_OR_RETURN(std::string text,
                     PromptText("prompt", std::get<TokenIdsPrompt>(prompt), *context.encoder,
                                *context.model, /*goes_on=*/request->common.max_tokens != 0));
    request->format.prompts.push_back(std::move(text));
  }
  return absl::OkStatus();
}

void StartAll(const ServingContext& context, const HttpCallRef& call, Caller caller,
              OpenAiRequest request) {
  OpenAiFormat format = std::move(request.format);
  std::vector<Generation> all = GenerationsOf(std::move(request));
  const size_t num = all.size();
  std::vector<std::shared_ptr<CancelToken>> tokens;
  tokens.reserve(num);
  for (size_t i = 0; i < num; ++i) {
    tokens.push_back(num == 1 ? call->token() : std::make_shared<CancelToken>());
  }
  caller.is_id_of_call = format.id == call->asked_id();
  auto answer = std::make_shared<OpenAiAnswer>(call, std::move(format), context.answers, tokens);
  std::vector<ListedRequest> list;
  list.reserve(num);
  for (size_t i = 0; i < num; ++i) {
    list.push_back({std::move(all[i]), tokens[i], answer->NewWriter(i)});
  }
  context.generate->StartAll(std::move(caller), std::move(list));
}

template <typename Parse>
HttpRoute AnswerRoute(std::string path, const ServingContext& context, Parse parse) {
  return GenerateRoute(
      std::move(path), context,
      [context, parse](const HttpCallRef& call, const Caller& caller,
                       const std::string& body) -> absl::Status {
        ASSIGN_OR_RETURN(OpenAiRequest request, parse(body, *context.model, call->asked_id()));
        RETURN_IF_ERROR(
            context.generate->CheckRoom(*call->principal(), request.num_continuations()));
        RETURN_IF_ERROR(FillEchoes(context, &request));
        StartAll(context, call, caller, std::move(request));
        return absl::OkStatus();
      });
}

absl::StatusOr<std::string> Tokenize(const ServingContext& context, const HttpCall& call,
                                     const std::string& body) {
  ASSIGN_OR_RETURN(const AskedTokens asked, ParseTokenize(body));
  ASSIGN_OR_RETURN(
      const TokenizedPrompt prompt,
      TokenizePrompt(asked.prompt, kOpenAiNames, *context.encoder, call.token().get()));
  std::string spelled = "null";
  if (asked.spells) {
    spelled = absl::StrCat("[",
                           absl::StrJoin(SpellTokens(*context.encoder, prompt.ids), ", ",
                                         [](std::string* out, const std::string& token) {
                                           out->append(JsonString(token));
                                         }),
                           "]");
  }
  return absl::StrCat("{\"count\": ", prompt.ids.size(),
                      ", \"max_model_len\": ", context.model->max_model_len, ", \"tokens\": [",
                      absl::StrJoin(prompt.ids, ", "), "], \"token_strs\": ", spelled, "}");
}

absl::StatusOr<std::string> DetokenizeBody(const ServingContext& context, const HttpCall&,
                                           const std::string& body) {
  ASSIGN_OR_RETURN(const std::vector<uint32_t> ids, ParseDetokenize(body));
  ASSIGN_OR_RETURN(const std::string text,
                   Detokenize("tokens", ids, *context.encoder, *context.model,
                              /*skip_special_tokens=*/false));
  return absl::StrCat("{\"prompt\": ", JsonString(text), "}");
}

template <typename Convert>
HttpRoute TokenRoute(std::string path, const ServingContext& context, Convert convert) {
  return ConvertRoute(std::move(path), context,
                      [context, convert](const HttpCall& call, const std::string& body) {
                        return convert(context, call, body);
                      });
}

}  // namespace

std::vector<HttpRoute> OpenAiRoutes(const ServingContext& context) {
  std::vector<HttpRoute> routes;
  routes.push_back(AnswerRoute("/v1/completions", context, ParseCompletion));
  routes.push_back(
      AnswerRoute("/v1/chat/completions", context,
                  [answers = context.answers](const std::string& body, const ModelFacts& model,
                                              absl::string_view asked_id) {
                    return ParseChat(body, model, *answers, asked_id);
                  }));
  routes.push_back(TokenRoute("/tokenize", context, Tokenize));
  routes.push_back(TokenRoute("/detokenize", context, DetokenizeBody));
  routes.push_back(
      {"POST", "/v1/embeddings", Role::kInference, [](const HttpCallRef& call, const HttpRequest&) {
         call->Fail(absl::UnimplementedError("this server generates; it makes no embeddings"));
       }});
  return routes;
}

}  // namespace quire

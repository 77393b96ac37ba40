#include "server/surfaces/openai/model_routes.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/json/model_file.h"
#include "kernels/base/status_macros.h"
#include "server/request/field_error.h"
#include "server/surfaces/openai/tokenizer_info.h"
#include "server/text/json_text.h"

namespace quire {

namespace {

std::string DescribeModel(const std::string& name, const ServingContext& context) {
  const ModelFacts& facts = *context.model;
  return absl::StrCat("{\"id\": ", JsonString(name), ", \"object\": \"model\", \"created\": ",
                      absl::ToUnixSeconds(context.start_time),
                      ", \"owned_by\": \"quire\", \"root\": ", JsonString(facts.path),
                      ", \"parent\": null, \"max_model_len\": ", facts.max_model_len, "}");
}

}  // namespace

std::vector<HttpRoute> ModelRoutes(const ServingContext& context) {
  return {
      TellingRoute("/v1/models", Role::kInference,
                   [context](const HttpRequest&) {
                     std::string list;
                     for (const std::string& name : context.model->served_names) {
                       absl::StrAppend(&list, list.empty() ? "" : ", ",
                                       DescribeModel(name, context));
                     }
                     return HttpAnswer{
                         .body = absl::StrCat("{\"object\": \"list\", \"data\": [", list, "]}")};
                   }),
      TellingRoute("/v1/models/*", Role::kInference,
                   [context](const HttpRequest& request) {
                     for (const std::string& name : context.model->served_names) {
                       if (name == request.rest)
                         return HttpAnswer{.body = DescribeModel(name, context)};
                     }
                     return ErrorAnswer(
                         404, absl::StrCat("this server has no model ", JsonString(request.rest)),
                         kModelNotFound);
                   }),
  };
}

absl::StatusOr<HttpRoute> TokenizerInfoRoute(const ServingContext& context) {
  constexpr int64_t kMaxConfigBytes = int64_t{64} << 20;
  absl::StatusOr<std::string> config =
      ReadModelFile(context.model->folder, "tokenizer_config.json", kMaxConfigBytes);
  if (absl::IsNotFound(config.status())) config = std::string();
  RETURN_IF_ERROR(config.status());
  ASSIGN_OR_RETURN(std::string info, TokenizerInfo(*config, context.encoder->main_chat_template()));
  return TellingRoute(
      "/tokenizer_info", Role::kInference,
      [info = std::move(info)](const HttpRequest&) { return HttpAnswer{.body = info}; });
}

}  // namespace quire

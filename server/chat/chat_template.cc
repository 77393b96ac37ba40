#include "server/chat/chat_template.h"

#include <cstdint>
#include <utility>

#include "kernels/base/status_macros.h"
#include "server/chat/continue_final_message.h"
#include "server/chat/jinja/builtins/globals.h"
#include "server/chat/jinja/syntax/parser.h"
#include "server/chat/jinja/values/error.h"
#include "server/text/utf8.h"

namespace quire {
namespace {

using Json = nlohmann::ordered_json;
using jinja::Value;

absl::StatusOr<Value> ValueFromJson(const Json& json, size_t depth) {
  if (depth > jinja::kMaxValueDepth) {
    return jinja::Error("the request's JSON is nested more than ", jinja::kMaxValueDepth,
                        " levels deep");
  }
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value(json.get<bool>());
    case Json::value_t::number_integer:
      return Value(jinja::Integer{json.get<int64_t>()});
    case Json::value_t::number_unsigned:
      return Value(jinja::Integer{json.get<uint64_t>()});
    case Json::value_t::number_float:
      return Value(json.get<double>());
    case Json::value_t::string:
      return Value(jinja::Text(json.get_ref<const std::string&>(), jinja::Origin::kUser));
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& element : json) {
        ASSIGN_OR_RETURN(Value item, ValueFromJson(element, depth + 1));
        items.push_back(std::move(item));
      }
      return Value(std::make_shared<const jinja::List>(jinja::ListKind::kList, std::move(items)));
    }
    case Json::value_t::object: {
      jinja::Dict dict;
      for (const auto& [key, element] : json.items()) {
        ASSIGN_OR_RETURN(Value item, ValueFromJson(element, depth + 1));
        dict.Set(Value(jinja::Text(key, jinja::Origin::kUser)), std::move(item));
      }
      return Value(std::make_shared<const jinja::Dict>(std::move(dict)));
    }
    default:
      return Value(jinja::None{});
  }
}

// The variables of a render. Names are views of `input`, of literals or of static storage.
absl::Status SetVariables(const RenderInput& input, jinja::Scope* scope) {
  for (auto& [name, function] : jinja::Globals()) scope->Set(name, std::move(function));
  const std::pair<std::string_view, const Json&> documents[] = {
      {"messages", input.messages}, {"tools", input.tools}, {"documents", input.documents}};
  for (const auto& [name, json] : documents) {
    ASSIGN_OR_RETURN(Value value, ValueFromJson(json, 1));
    scope->Set(name, std::move(value));
  }
  scope->Set("add_generation_prompt", Value(input.add_generation_prompt));
  scope->Set("continue_final_message", Value(input.continue_final_message));
  scope->Set("bos_token", Value(jinja::Text(input.bos_token, jinja::Origin::kTemplate)));
  scope->Set("eos_token", Value(jinja::Text(input.eos_token, jinja::Origin::kTemplate)));
  if (!input.kwargs.is_object()) {
    return jinja::Error("chat_template_kwargs must be a JSON object");
  }
  for (const auto& [name, json] : input.kwargs.get_ref<const Json::object_t&>()) {
    if (scope->Find(name) != nullptr) {
      return jinja::Error("chat_template_kwargs may not set '", name, "', which the server sets");
    }
    ASSIGN_OR_RETURN(Value value, ValueFromJson(json, 1));
    scope->Set(name, std::move(value));
  }
  return absl::OkStatus();
}

std::vector<PromptSegment> SegmentsOf(const jinja::Text& text) {
  std::vector<PromptSegment> segments;
  size_t begin = 0;
  for (const jinja::Text::Run& run : text.runs()) {
    segments.push_back({std::string(text.bytes().substr(begin, run.end - begin)),
                        run.origin == jinja::Origin::kTemplate});
    begin = run.end;
  }
  return segments;
}

}  // namespace

absl::StatusOr<ChatTemplate> ChatTemplate::Compile(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return jinja::Error("chat template: ", source.size(), " bytes are over the limit of ",
                        kMaxSourceBytes);
  }
  if (!IsValidUtf8(source)) return jinja::Error("chat template: not valid UTF-8");
  absl::StatusOr<jinja::Block> block = jinja::Parse(source);
  if (!block.ok()) {
    return jinja::Error("chat template, ", block.status().message());
  }
  return ChatTemplate(*std::move(block));
}

absl::StatusOr<std::vector<PromptSegment>> ChatTemplate::Render(const RenderInput& input) const {
  jinja::Runtime runtime(input.limits, input.now);
  jinja::Text output;
  jinja::Context context{runtime, std::make_shared<jinja::Scope>(nullptr), &output};
  RETURN_IF_ERROR(SetVariables(input, context.scope.get()));
  absl::Status status = block_->Execute(context).status();
  if (!status.ok() && runtime.raised_by_template) return status;
  if (!status.ok()) {
    return jinja::Error("chat template, line ", runtime.line, ": ", status.message());
  }
  if (input.continue_final_message) RETURN_IF_ERROR(CutAfterFinalMessage(input.messages, &output));
  return SegmentsOf(output);
}

}  // namespace quire

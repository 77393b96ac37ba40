#include "server/text/chat/chat_template.h"

#include <memory>
#include <utility>

#include "kernels/base/status_macros.h"
#include "server/text/chat/continue_final_message.h"
#include "server/text/chat/jinja/builtins/globals.h"
#include "server/text/chat/jinja/syntax/parser.h"
#include "server/text/chat/jinja/values/error.h"
#include "server/text/utf8.h"

namespace quire {
namespace {

using jinja::Value;

// The variables of a render. Names are views of `input`, of literals or of static storage.
absl::Status SetVariables(const RenderInput& input, const Value& messages, jinja::Scope* scope) {
  for (auto& [name, function] : jinja::Globals()) scope->Set(name, std::move(function));
  scope->Set("messages", messages);
  scope->Set("tools", input.tools);
  scope->Set("documents", input.documents);
  scope->Set("add_generation_prompt", Value(input.add_generation_prompt));
  scope->Set("continue_final_message", Value(input.continue_final_message));
  scope->Set("bos_token", Value(jinja::Text(input.bos_token, jinja::Origin::kTemplate)));
  scope->Set("eos_token", Value(jinja::Text(input.eos_token, jinja::Origin::kTemplate)));
  if (input.kwargs.is_none()) return absl::OkStatus();
  const jinja::Dict* kwargs = input.kwargs.dict();
  if (kwargs == nullptr) return jinja::Error("chat_template_kwargs must be a JSON object");
  for (const auto& [key, value] : kwargs->entries()) {
    const std::string_view name = key.text()->bytes();  // as of every key of JSON
    if (scope->Find(name) != nullptr) {
      return jinja::Error("chat_template_kwargs may not set '", name, "', which the server sets");
    }
    scope->Set(name, value);
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
  return ChatTemplate(source, *std::move(block));
}

absl::StatusOr<std::vector<PromptSegment>> ChatTemplate::Render(const RenderInput& input) const {
  Fuel own_fuel(RenderInput::kMaxSteps);
  jinja::Runtime runtime(input.fuel == nullptr ? &own_fuel : input.fuel, input.max_text_bytes,
                         input.now);
  Value messages = input.messages;
  if (input.continue_final_message) {
    ASSIGN_OR_RETURN(messages, MarkFinalMessage(messages));
  }
  jinja::Text output;
  jinja::Context context{runtime, std::make_shared<jinja::Scope>(nullptr), &output};
  RETURN_IF_ERROR(SetVariables(input, messages, context.scope.get()));
  absl::Status status = block_->Execute(context).status();
  if (!status.ok() && (runtime.raised_by_template || absl::IsCancelled(status))) return status;
  if (!status.ok()) {
    return jinja::Error("chat template, line ", runtime.line, ": ", status.message());
  }
  if (input.continue_final_message) RETURN_IF_ERROR(CutAtMark(input.messages, &output));
  return SegmentsOf(output);
}

}  // namespace quire

// Short ways to render a template in a test.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/text/chat/chat_template.h"
#include "server/text/chat/json_values.h"

namespace quire {

inline absl::StatusOr<std::vector<PromptSegment>> RenderSegments(std::string_view source,
                                                                 const RenderInput& input = {}) {
  const absl::StatusOr<ChatTemplate> compiled = ChatTemplate::Compile(source);
  if (!compiled.ok()) return compiled.status();
  return compiled->Render(input);
}

// The whole text, or "error: ..." with the message.
inline std::string TextOf(const absl::StatusOr<std::vector<PromptSegment>>& segments) {
  if (!segments.ok()) return "error: " + std::string(segments.status().message());
  std::string text;
  for (const PromptSegment& segment : *segments) text += segment.text;
  return text;
}

inline std::string Rendered(std::string_view source, const RenderInput& input = {}) {
  return TextOf(RenderSegments(source, input));
}

// None if it cannot be parsed.
inline jinja::Value FromJson(std::string_view json) {
  JsonBudget budget;
  return ParseJsonValue(json, &budget, jinja::kMaxValueDepth + 1).value_or(jinja::None{});
}

// Variables for a template that is not about messages.
inline RenderInput With(std::string_view kwargs_json) {
  RenderInput input;
  input.kwargs = FromJson(kwargs_json);
  return input;
}

}  // namespace quire

#include "server/text/answer/model_answers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"

namespace quire {

namespace {

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

ToolFormat ToolsOf(std::string_view parser, std::string_view chat_templates) {
  return parser == "auto" ? DetectToolFormat(chat_templates) : ToolFormatOf(parser);
}

ReasoningFormat ReasoningOf(std::string_view parser, const Tokenizer& tokenizer,
                            std::string_view chat_templates) {
  if (parser != "auto") return ReasoningFormatOf(parser);
  if (DetectHarmony(chat_templates)) return ReasoningFormatOf("gpt_oss");
  for (const char* name : {"qwen3", "mistral", "gemma4"}) {
    ReasoningFormat format = ReasoningFormatOf(name);
    if (tokenizer.TokenToId(format.close).has_value() || Contains(chat_templates, format.close)) {
      return format;
    }
  }
  return {};
}

}  // namespace

ModelAnswers::ModelAnswers(std::string_view tool_parser, std::string_view reasoning_parser,
                           std::shared_ptr<const Tokenizer> tokenizer,
                           std::string_view chat_templates)
    : tokenizer_(std::move(tokenizer)),
      tools_(ToolsOf(tool_parser, chat_templates)),
      reasoning_(ReasoningOf(reasoning_parser, *tokenizer_, chat_templates)),
      opening_(tools_, chat_templates) {}

std::vector<TokenId> ModelAnswers::TagTokens(bool with_tools) const {
  std::vector<std::string> tags = {reasoning_.open, reasoning_.close};
  // Harmony has one set of tags for both.
  const bool in_channels = reasoning_.in_channels;
  if (with_tools || in_channels) {
    CallTags call = TagsOf(in_channels ? ToolFormat::kHarmony : tools_);
    tags.insert(tags.end(), call.begin.begin(), call.begin.end());
    tags.push_back(call.end);
    tags.insert(tags.end(), call.within.begin(), call.within.end());
  }
  std::vector<TokenId> tokens;
  for (const std::string& tag : tags) {
    const std::optional<TokenId> token = tokenizer_->TokenToId(tag);
    if (token.has_value() && tokenizer_->IsSpecial(*token)) tokens.push_back(*token);
  }
  return tokens;
}

std::string ModelAnswers::OpeningOfCall(std::string_view function) const {
  return opening_.Of(function);
}

bool ModelAnswers::BeginsInReasoning(absl::Span<const TokenId> prompt) const {
  if (reasoning_.is_none()) return false;
  constexpr size_t kNumTokens = 16;  // enough for a tag and white space
  const absl::Span<const TokenId> last =
      prompt.subspan(prompt.size() - std::min(prompt.size(), kNumTokens));
  std::string text = tokenizer_->Decode(last, /*skip_special_tokens=*/false);
  absl::StripTrailingAsciiWhitespace(&text);
  std::string labelled = reasoning_.open + reasoning_.label;
  absl::StripTrailingAsciiWhitespace(&labelled);
  if (text.ends_with(reasoning_.open) || text.ends_with(labelled)) return true;
  return reasoning_.always && !text.ends_with(reasoning_.close);
}

bool ModelAnswers::GoesOnInReasoning(std::string_view message) const {
  if (reasoning_.is_none() || Contains(message, reasoning_.close)) return false;
  return reasoning_.always || Contains(message, reasoning_.open);
}

}  // namespace quire

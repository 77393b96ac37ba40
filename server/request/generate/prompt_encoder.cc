#include "server/request/generate/prompt_encoder.h"

#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "server/request/field_error.h"

namespace quire {

namespace {

// A tokenizer.json of one token, which adds nothing to a text.
constexpr char kNoTokens[] = R"({"model": {"type": "BPE", "vocab": {"": 0}, "merges": []}})";

std::string TokenOrEmpty(const Tokenizer& tokenizer, std::optional<TokenId> id) {
  return id.has_value() ? std::string(tokenizer.IdToToken(*id)) : std::string();
}

}  // namespace

std::string PromptEncoder::Rendered::text() const {
  std::string text;
  for (const PromptSegment& segment : segments) text += segment.text;
  return text;
}

absl::StatusOr<std::unique_ptr<PromptEncoder>> PromptEncoder::Load(
    const std::string& model_folder, std::optional<ChatTemplateSet> chat_template) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Tokenizer> tokenizer, Tokenizer::Load(model_folder));
  if (chat_template.has_value()) {
    return std::make_unique<PromptEncoder>(std::move(tokenizer), std::move(chat_template));
  }
  absl::StatusOr<ChatTemplateSet> of_model = LoadChatTemplate(model_folder);
  if (of_model.ok()) {
    return std::make_unique<PromptEncoder>(std::move(tokenizer), *std::move(of_model));
  }
  if (!absl::IsNotFound(of_model.status())) return of_model.status();
  return std::make_unique<PromptEncoder>(std::move(tokenizer), std::nullopt);
}

std::unique_ptr<PromptEncoder> PromptEncoder::WithoutTokenizer() {
  absl::StatusOr<std::shared_ptr<const Tokenizer>> no_tokens = Tokenizer::FromJson(kNoTokens);
  CHECK(no_tokens.ok()) << no_tokens.status();
  auto encoder = std::make_unique<PromptEncoder>(*std::move(no_tokens), std::nullopt);
  encoder->has_tokenizer_ = false;
  return encoder;
}

absl::Status PromptEncoder::CheckHasTokenizer(absl::string_view field) const {
  if (has_tokenizer_) return absl::OkStatus();
  return InField(field, absl::FailedPreconditionError("this server runs without a tokenizer "
                                                      "(--skip-tokenizer-init); send token_ids"));
}

absl::Status PromptEncoder::CheckTakesMessages(absl::string_view field) const {
  RETURN_IF_ERROR(CheckHasTokenizer(field));
  if (chat_templates_.has_value()) return absl::OkStatus();
  return InvalidField(
      field,
      "this model has no chat template; send text or token_ids, or start the server "
      "with --chat-template");
}

PromptEncoder::PromptEncoder(std::shared_ptr<const Tokenizer> tokenizer,
                             std::optional<ChatTemplateSet> chat_templates)
    : tokenizer_(std::move(tokenizer)),
      chat_templates_(std::move(chat_templates)),
      bos_token_(TokenOrEmpty(*tokenizer_, tokenizer_->bos_id())),
      eos_token_(TokenOrEmpty(*tokenizer_, tokenizer_->eos_id())) {}

absl::StatusOr<std::vector<TokenId>> PromptEncoder::EncodeText(const TextPrompt& prompt,
                                                               Fuel* fuel) const {
  EncodeOptions options;
  options.add_special_tokens = prompt.add_special_tokens;
  options.parse_special_tokens = prompt.parse_special_tokens;
  options.fuel = fuel;
  return tokenizer_->Encode(prompt.text, options);
}

absl::StatusOr<PromptEncoder::Rendered> PromptEncoder::Render(RenderInput input) const {
  input.bos_token = bos_token_;
  input.eos_token = eos_token_;
  ASSIGN_OR_RETURN(std::vector<PromptSegment> segments, chat_templates_->Render(std::move(input)));
  return Rendered{std::move(segments)};
}

absl::StatusOr<std::vector<TokenId>> PromptEncoder::EncodeRendered(const Rendered& rendered,
                                                                   Fuel* fuel) const {
  std::vector<Segment> parts;
  parts.reserve(rendered.segments.size());
  for (const PromptSegment& segment : rendered.segments) {
    parts.push_back({segment.text, segment.from_template});
  }
  // The template writes the special tokens around the text itself.
  return tokenizer_->EncodeSegments(parts, /*add_special_tokens=*/false, fuel);
}

}  // namespace quire

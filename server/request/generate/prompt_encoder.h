// PromptEncoder: the text side of the served model, its tokenizer and chat template, as requests
// use it. Immutable after Load; any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/request/generation.h"
#include "server/text/chat/template_loader.h"
#include "server/text/tokenizer/tokenizer.h"

namespace quire {

class PromptEncoder {
 public:
  // A rendered chat: which parts the template wrote and which came with the request.
  struct Rendered {
    std::vector<PromptSegment> segments;
    std::string text() const;
  };

  // Reads the tokenizer and the chat templates of a model folder; `chat_template`, if given,
  // replaces the latter. A model without any can still complete texts. Errors name the file.
  static absl::StatusOr<std::unique_ptr<PromptEncoder>> Load(
      const std::string& model_folder, std::optional<ChatTemplateSet> chat_template);
  // Knows no text: prompts are token ids only, and every token's text is empty.
  static std::unique_ptr<PromptEncoder> WithoutTokenizer();
  PromptEncoder(std::shared_ptr<const Tokenizer> tokenizer,
                std::optional<ChatTemplateSet> chat_templates);

  // Needs a tokenizer. CANCELLED once the fuel's request is cancelled.
  absl::StatusOr<std::vector<TokenId>> EncodeText(const TextPrompt& prompt, Fuel* fuel) const;
  // Needs a chat template. Fills in the tokens that begin and end a sequence.
  absl::StatusOr<Rendered> Render(RenderInput input) const;
  absl::StatusOr<std::vector<TokenId>> EncodeRendered(const Rendered& rendered, Fuel* fuel) const;

  // FAILED_PRECONDITION, blaming `field`, if there is no tokenizer.
  absl::Status CheckHasTokenizer(absl::string_view field) const;
  // The same, and INVALID_ARGUMENT if there is no chat template.
  absl::Status CheckTakesMessages(absl::string_view field) const;
  // Without a tokenizer, one that knows no token.
  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }
  bool has_chat_template() const { return chat_templates_.has_value(); }
  // Empty if there is none.
  std::string main_chat_template() const {
    return has_chat_template() ? chat_templates_->main_source() : "";
  }
  std::string chat_template_sources() const {
    return has_chat_template() ? chat_templates_->Sources() : "";
  }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool has_tokenizer_ = true;
  std::optional<ChatTemplateSet> chat_templates_;
  std::string bos_token_;
  std::string eos_token_;
};

}  // namespace quire

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
  // Knows no text: token ids only, every token's text is empty.
  static std::unique_ptr<PromptEncoder> WithoutTokenizer();
  PromptEncoder(std::shared_ptr<const Tokenizer> tokenizer,
                std::optional<ChatTemplateSet> chat_templates);

  // There is a tokenizer. CANCELLED by the fuel's request.
  absl::StatusOr<std::vector<TokenId>> EncodeText(const TextPrompt& prompt, Fuel* fuel) const;
  // There is a chat template. The tokens that begin and end a sequence are filled in.
  absl::StatusOr<Rendered> Render(RenderInput input) const;
  absl::StatusOr<std::vector<TokenId>> EncodeRendered(const Rendered& rendered, Fuel* fuel) const;

  // FAILED_PRECONDITION of `field` where there is no tokenizer.
  absl::Status CheckHasTokenizer(absl::string_view field) const;
  // The same, and INVALID_ARGUMENT where there is no chat template.
  absl::Status CheckTakesMessages(absl::string_view field) const;
  // One that knows no token where there is none.
  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }
  bool has_chat_template() const { return chat_templates_.has_value(); }
  // Empty where there is none.
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

#include "server/generate/tokenize.h"

#include <utility>

#include "kernels/base/status_macros.h"
#include "server/request/parameters.h"

namespace quire {

absl::StatusOr<TokenizedPrompt> TokenizeText(const PromptEncoder& encoder,
                                             const TextPrompt& prompt) {
  TokenizedPrompt result;
  ASSIGN_OR_RETURN(result.ids, encoder.EncodeText(prompt));
  return result;
}

absl::StatusOr<TokenizedPrompt> TokenizeMessages(const PromptEncoder& encoder, RenderInput input) {
  ASSIGN_OR_RETURN(const PromptEncoder::Rendered rendered, encoder.Render(std::move(input)));
  TokenizedPrompt result;
  ASSIGN_OR_RETURN(result.ids, encoder.EncodeRendered(rendered));
  result.rendered = rendered.text();
  return result;
}

std::vector<std::string> SpellTokens(const PromptEncoder& encoder,
                                     const std::vector<TokenId>& ids) {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const TokenId id : ids) tokens.emplace_back(encoder.tokenizer()->IdToToken(id));
  return tokens;
}

absl::StatusOr<std::string> Detokenize(const PromptEncoder& encoder, const ModelFacts& model,
                                       absl::Span<const uint32_t> ids, bool skip_special_tokens) {
  RETURN_IF_ERROR(encoder.CheckHasTokenizer("ids"));
  std::vector<TokenId> tokens;
  tokens.reserve(ids.size());
  for (const uint32_t id : ids) {
    RETURN_IF_ERROR(CheckTokenId("ids", id, model));
    tokens.push_back(static_cast<TokenId>(id));
  }
  return encoder.tokenizer()->Decode(tokens, skip_special_tokens);
}

}  // namespace quire

#include "server/request/generate/tokenize.h"

#include <utility>

#include "kernels/base/status_macros.h"
#include "server/request/field_error.h"
#include "server/request/generate/prompt.h"
#include "server/request/parameters.h"
#include "server/request/request_fuel.h"
#include "server/text/tokenizer/stream_decoder.h"

namespace quire {

absl::StatusOr<TokenizedPrompt> TokenizePrompt(const Prompt& prompt, const FieldNames& names,
                                               const PromptEncoder& encoder,
                                               const CancelToken* token) {
  RequestFuel fuel(NumBytes(prompt), NumMessages(prompt), token);
  TokenizedPrompt result;
  if (const auto* text = std::get_if<TextPrompt>(&prompt)) {
    ASSIGN_OR_RETURN(result.ids, EncodeText(*text, names, encoder, &fuel));
    return result;
  }
  const auto* chat = std::get_if<ChatPrompt>(&prompt);
  if (chat == nullptr) return InvalidField(names.prompt, "set one of text and messages");
  ASSIGN_OR_RETURN(const PromptEncoder::Rendered rendered,
                   RenderChat(*chat, names, encoder, &fuel));
  ASSIGN_OR_RETURN(result.ids, EncodeRendered(rendered, names, encoder, &fuel));
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

absl::StatusOr<std::string> PromptText(const std::string& field, absl::Span<const uint32_t> ids,
                                       const PromptEncoder& encoder, const ModelFacts& model,
                                       bool goes_on) {
  if (!model.has_tokenizer) {
    return InField("echo", absl::FailedPreconditionError(
                               "this server runs without a tokenizer (--skip-tokenizer-init), so "
                               "that it knows no text of token ids; leave echo out"));
  }
  ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, ConvertTokenIds(field, ids, model));
  StreamDecoder decoder(encoder.tokenizer(), /*skip_special_tokens=*/false);
  std::string text;
  for (const TokenId token : tokens) text += decoder.Append(token);
  if (!goes_on) text += decoder.Flush();
  return text;
}

absl::StatusOr<std::string> Detokenize(const std::string& field, absl::Span<const uint32_t> ids,
                                       const PromptEncoder& encoder, const ModelFacts& model,
                                       bool skip_special_tokens) {
  RETURN_IF_ERROR(encoder.CheckHasTokenizer(field));
  ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, ConvertTokenIds(field, ids, model));
  return encoder.tokenizer()->Decode(tokens, skip_special_tokens);
}

}  // namespace quire

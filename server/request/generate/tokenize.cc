#include "server/request/generate/tokenize.h"

#include <utility>

#include "kernels/base/status_macros.h"
#include "server/request/field_error.h"
#include "server/request/generate/prompt_message.h"
#include "server/request/parameters.h"
#include "server/request/request_fuel.h"
#include "server/text/tokenizer/stream_decoder.h"

namespace quire {

namespace {

absl::StatusOr<std::vector<TokenId>> CheckedIds(const std::string& field, const ModelFacts& model,
                                                absl::Span<const uint32_t> ids) {
  std::vector<TokenId> tokens;
  tokens.reserve(ids.size());
  for (const uint32_t id : ids) {
    RETURN_IF_ERROR(CheckTokenId(field, id, model));
    tokens.push_back(static_cast<TokenId>(id));
  }
  return tokens;
}

}  // namespace

absl::StatusOr<TokenizedPrompt> TokenizePrompt(const v1::TokenizeRequest& request,
                                               const PromptEncoder& encoder,
                                               const CancelToken* token) {
  RequestFuel fuel(request.ByteSizeLong(), request.messages().messages_size(), token);
  TokenizedPrompt result;
  switch (request.prompt_case()) {
    case v1::TokenizeRequest::kText: {
      ASSIGN_OR_RETURN(result.ids, encoder.EncodeText(ConvertText(request.text()), &fuel));
      return result;
    }
    case v1::TokenizeRequest::kMessages: {
      ASSIGN_OR_RETURN(const PromptEncoder::Rendered rendered,
                       RenderMessages(request.messages(), encoder, &fuel));
      ASSIGN_OR_RETURN(result.ids, encoder.EncodeRendered(rendered, &fuel));
      result.rendered = rendered.text();
      return result;
    }
    case v1::TokenizeRequest::PROMPT_NOT_SET:
      break;
  }
  return InvalidField("prompt", "set one of text and messages");
}

std::vector<std::string> SpellTokens(const PromptEncoder& encoder,
                                     const std::vector<TokenId>& ids) {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const TokenId id : ids) tokens.emplace_back(encoder.tokenizer()->IdToToken(id));
  return tokens;
}

absl::StatusOr<std::string> PromptText(const PromptEncoder& encoder, const ModelFacts& model,
                                       absl::Span<const uint32_t> ids, bool goes_on) {
  if (!model.has_tokenizer) {
    return InField("echo", absl::FailedPreconditionError(
                               "this server runs without a tokenizer (--skip-tokenizer-init), so "
                               "that it knows no text of token ids; leave echo out"));
  }
  ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, CheckedIds("token_ids", model, ids));
  StreamDecoder decoder(encoder.tokenizer(), /*skip_special_tokens=*/false);
  std::string text;
  for (const TokenId token : tokens) text += decoder.Append(token);
  if (!goes_on) text += decoder.Flush();
  return text;
}

absl::StatusOr<std::string> Detokenize(const PromptEncoder& encoder, const ModelFacts& model,
                                       absl::Span<const uint32_t> ids, bool skip_special_tokens) {
  RETURN_IF_ERROR(encoder.CheckHasTokenizer("ids"));
  ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, CheckedIds("ids", model, ids));
  return encoder.tokenizer()->Decode(tokens, skip_special_tokens);
}

}  // namespace quire

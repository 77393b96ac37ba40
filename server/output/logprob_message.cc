#include "server/output/logprob_message.h"

#include "server/text/utf8.h"

namespace quire {

std::string TokenText(const Tokenizer& tokenizer, TokenId token) {
  const std::string bytes = tokenizer.TokenBytes(token);
  std::string text;
  for (std::string_view rest = bytes; !rest.empty();) {
    const Utf8Prefix prefix = ClassifyUtf8Prefix(rest);
    if (prefix.kind == Utf8Start::kCharacter) {
      text.append(rest.substr(0, prefix.num_bytes));
    } else {
      AppendUtf8(kReplacementCharacter, &text);
    }
    rest.remove_prefix(prefix.num_bytes);
  }
  return text;
}

void FillTokenLogprob(const Tokenizer& tokenizer, TokenId token, const TokenLogprobs& logprobs,
                      v1::TokenLogprob* message) {
  message->set_token_id(static_cast<uint32_t>(token));
  message->set_token(TokenText(tokenizer, token));
  message->set_logprob(logprobs.logprob);
  message->set_rank(logprobs.rank);
  for (const auto& [id, logprob] : logprobs.top) {
    v1::TopLogprob* top = message->add_top();
    top->set_token_id(static_cast<uint32_t>(id));
    top->set_token(TokenText(tokenizer, id));
    top->set_logprob(logprob);
  }
}

}  // namespace quire

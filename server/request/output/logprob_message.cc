#include "server/request/output/logprob_message.h"

#include <string>
#include <string_view>

#include "server/text/utf8.h"

namespace quire {

namespace {

std::string TextOf(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const Utf8Prefix prefix = ClassifyUtf8Prefix(bytes);
    if (prefix.kind == Utf8Start::kCharacter) {
      text.append(bytes.substr(0, prefix.num_bytes));
    } else {
      AppendUtf8(kReplacementCharacter, &text);
    }
    bytes.remove_prefix(prefix.num_bytes);
  }
  return text;
}

void AddTexts(google::protobuf::RepeatedPtrField<v1::TokenLogprob>* logprobs) {
  for (v1::TokenLogprob& logprob : *logprobs) {
    logprob.set_token(TextOf(logprob.token_bytes()));
    for (v1::TopLogprob& top : *logprob.mutable_top()) top.set_token(TextOf(top.token_bytes()));
  }
}

}  // namespace

void FillToken(const Tokenizer& tokenizer, TokenId token, v1::TokenLogprob* message) {
  message->set_token_id(static_cast<uint32_t>(token));
  message->set_token_bytes(tokenizer.TokenBytes(token));
}

void FillTokenLogprob(const Tokenizer& tokenizer, TokenId token, const TokenLogprobs& logprobs,
                      v1::TokenLogprob* message) {
  FillToken(tokenizer, token, message);
  message->set_logprob(logprobs.logprob);
  message->set_rank(logprobs.rank);
  for (const auto& [id, logprob] : logprobs.top) {
    v1::TopLogprob* top = message->add_top();
    top->set_token_id(static_cast<uint32_t>(id));
    top->set_token_bytes(tokenizer.TokenBytes(id));
    top->set_logprob(logprob);
  }
}

void AddTokenTexts(v1::GenerateResponse* response) {
  if (response->has_started()) {
    AddTexts(response->mutable_started()->mutable_prompt_logprobs());
  } else if (response->has_delta()) {
    AddTexts(response->mutable_delta()->mutable_logprobs());
  }
}

void AddTokenTexts(v1::GenerateOnceResponse* answer) {
  AddTexts(answer->mutable_prompt_logprobs());
  for (v1::Choice& choice : *answer->mutable_choices()) AddTexts(choice.mutable_logprobs());
}

}  // namespace quire

#include "server/request/generate/prompt.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "kernels/base/clock.h"
#include "kernels/base/status_macros.h"
#include "server/request/field_error.h"
#include "server/request/limits.h"
#include "server/request/parameters.h"
#include "server/text/chat/json_values.h"

namespace quire {

namespace {

// No field is to blame for the request's end.
template <typename Result>
absl::StatusOr<Result> Blaming(absl::string_view field, absl::StatusOr<Result> result) {
  if (result.ok() || absl::IsCancelled(result.status())) return result;
  return InField(field, result.status());
}

// Fills `input` with the values that the template sees.
absl::Status FillValues(const ChatPrompt& chat, const FieldNames& names, RenderInput* input) {
  JsonBudget budget = {input->fuel};
  ASSIGN_OR_RETURN(input->messages, Blaming(names.messages, ToListValue(chat.messages, &budget)));
  ASSIGN_OR_RETURN(input->tools, Blaming(names.tools, ToValue(chat.tools, &budget)));
  ASSIGN_OR_RETURN(input->kwargs,
                   Blaming(names.template_kwargs, ToValue(chat.template_kwargs, &budget)));
  return absl::OkStatus();
}

void BeginAnswer(const AnswerStart& start, PromptEncoder::Rendered* rendered) {
  std::vector<PromptSegment>& segments = rendered->segments;
  if (segments.empty() || !segments.back().from_template) segments.push_back({"", true});
  std::string& end = segments.back().text;
  const absl::string_view written = absl::StripTrailingAsciiWhitespace(end);
  const absl::string_view open = absl::StripTrailingAsciiWhitespace(start.reasoning_open);
  const bool reasons = !open.empty() && absl::EndsWith(written, open);
  if (reasons) absl::StrAppend(&end, "\n", start.reasoning_close, "\n\n");
  end.append(start.text);
}

}  // namespace

absl::Status CheckMessages(const ChatPrompt& chat, const FieldNames& names) {
  if (chat.messages.empty()) {
    return InvalidField(names.messages, "is empty; send at least one message");
  }
  if (chat.messages.size() <= kMaxMessages) return absl::OkStatus();
  return InvalidField(names.messages, absl::StrCat("are ", chat.messages.size(),
                                                   "; allowed are at most ", kMaxMessages));
}

absl::StatusOr<RenderInput> ConvertChat(const ChatPrompt& chat, const FieldNames& names,
                                        Fuel* fuel) {
  RETURN_IF_ERROR(CheckMessages(chat, names));
  if (chat.continue_final_message && chat.add_generation_prompt) {
    return InvalidField(names.continue_final_message,
                        "goes with add_generation_prompt: false, as no new message begins");
  }
  if (chat.answer_start.has_value() && !chat.add_generation_prompt) {
    return InvalidField(names.answer_start,
                        "goes with add_generation_prompt: true, as a new answer begins");
  }
  RenderInput input;
  input.fuel = fuel;
  input.max_text_bytes =
      std::min(jinja::kMaxTextBytes, kBaseRenderedBytes + kRenderedBytesPerByte * NumBytes(chat));
  input.add_generation_prompt = chat.add_generation_prompt;
  input.continue_final_message = chat.continue_final_message;
  input.now = absl::ToTimeT(WallNow());
  RETURN_IF_ERROR(FillValues(chat, names, &input));
  return input;
}

absl::StatusOr<PromptEncoder::Rendered> RenderChat(const ChatPrompt& chat, const FieldNames& names,
                                                   const PromptEncoder& encoder, Fuel* fuel) {
  RETURN_IF_ERROR(encoder.CheckTakesMessages(names.messages));
  ASSIGN_OR_RETURN(RenderInput input, ConvertChat(chat, names, fuel));
  ASSIGN_OR_RETURN(PromptEncoder::Rendered rendered,
                   Blaming(names.messages, encoder.Render(std::move(input))));
  if (chat.answer_start.has_value()) BeginAnswer(*chat.answer_start, &rendered);
  return rendered;
}

absl::StatusOr<std::vector<TokenId>> EncodeText(const TextPrompt& prompt, const FieldNames& names,
                                                const PromptEncoder& encoder, Fuel* fuel) {
  RETURN_IF_ERROR(encoder.CheckHasTokenizer(names.text));
  return Blaming(names.text, encoder.EncodeText(prompt, fuel));
}

absl::StatusOr<std::vector<TokenId>> EncodeRendered(const PromptEncoder::Rendered& rendered,
                                                    const FieldNames& names,
                                                    const PromptEncoder& encoder, Fuel* fuel) {
  return Blaming(names.messages, encoder.EncodeRendered(rendered, fuel));
}

absl::StatusOr<std::vector<TokenId>> EncodePrompt(const Prompt& prompt, const GenerationJob& job,
                                                  const PromptEncoder& encoder,
                                                  const ModelFacts& model, Fuel* fuel) {
  const FieldNames& names = *job.names;
  if (const auto* text = std::get_if<TextPrompt>(&prompt)) {
    if (text->text.empty()) {
      return InvalidField(names.text, "is empty; send at least one character");
    }
    return EncodeText(*text, names, encoder, fuel);
  }
  if (const auto* ids = std::get_if<TokenIdsPrompt>(&prompt)) {
    return ConvertPromptIds(*ids, model, job);
  }
  if (const auto* chat = std::get_if<ChatPrompt>(&prompt)) {
    ASSIGN_OR_RETURN(const PromptEncoder::Rendered rendered,
                     RenderChat(*chat, names, encoder, fuel));
    return EncodeRendered(rendered, names, encoder, fuel);
  }
  return InvalidField(names.prompt, "set one of text, token_ids and messages");
}

}  // namespace quire

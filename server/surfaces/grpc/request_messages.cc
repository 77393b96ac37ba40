#include "server/surfaces/grpc/request_messages.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "server/request/asked_constraint.h"
#include "server/request/field_error.h"
#include "server/request/media_kinds.h"

namespace quire {

namespace {

// The value of a field that is JSON text; `num_values_left` is that of the whole request.
absl::StatusOr<JsonTree> ParseField(const std::string& field, const std::string& text,
                                    size_t* num_values_left, size_t max_depth = kMaxJsonDepth) {
  absl::StatusOr<JsonTree> tree = ParseJsonTree(text, num_values_left, max_depth);
  if (!tree.ok()) return InField(field, tree.status());
  return tree;
}

// The same for an object, which may be left out.
absl::StatusOr<JsonTree> ParseObject(const std::string& field, const std::string& text,
                                     size_t* num_values_left, size_t max_depth = kMaxJsonDepth) {
  if (text.empty()) return NewObject();
  ASSIGN_OR_RETURN(JsonTree tree, ParseField(field, text, num_values_left, max_depth));
  if (!tree.is_object()) return InvalidField(field, "is not a JSON object");
  return tree;
}

// Templates write what a picture becomes wherever a part is of its type or has such a key.
absl::Status CheckParts(const std::string& field, const JsonTree* content) {
  if (content == nullptr) return absl::OkStatus();
  for (size_t i = 0; i < content->items.size(); ++i) {
    const JsonTree& part = content->items[i];
    for (size_t j = 0; j < part.keys.size(); ++j) {
      const bool is_type = part.keys[j] == "type" && part.items[j].is_text();
      const std::string& name = is_type ? part.items[j].text : part.keys[j];
      const absl::string_view kind = MediaKindOf(name);
      if (kind.empty()) continue;
      return InvalidField(field, absl::StrCat("content[", i, "] has ", ToJson(TextTree(name)), "; ",
                                              WhyNoMedia(kind)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<JsonTree> ToMessageTree(v1::Message& message, const std::string& field,
                                       size_t* num_values_left) {
  if (message.role().empty()) {
    return InvalidField(field + ".role",
                        "is empty; use the template's roles, such as system, user or assistant");
  }
  const std::string extra_field = field + ".extra_json";
  // The message is within a list.
  ASSIGN_OR_RETURN(JsonTree extra, ParseObject(extra_field, message.extra_json(), num_values_left,
                                               kMaxJsonDepth - 1));
  RETURN_IF_ERROR(CheckParts(extra_field, extra.Find("content")));
  JsonTree tree = NewObject();
  AddMember(&tree, "role", TextTree(std::move(*message.mutable_role())));
  if (message.has_content()) {
    AddMember(&tree, "content", TextTree(std::move(*message.mutable_content())));
  }
  for (size_t i = 0; i < extra.items.size(); ++i) {
    if (extra.keys[i] == "role" && !extra.items[i].is_text()) {
      return InvalidField(extra_field, "has a role that is no text");
    }
    AddMember(&tree, std::move(extra.keys[i]), std::move(extra.items[i]));
  }
  return tree;
}

absl::StatusOr<ChatPrompt> ToChat(v1::Messages messages) {
  ChatPrompt chat;
  size_t num_values_left = kMaxJsonValues;
  for (int i = 0; i < messages.messages_size(); ++i) {
    ASSIGN_OR_RETURN(JsonTree message,
                     ToMessageTree(*messages.mutable_messages(i), absl::StrCat("messages[", i, "]"),
                                   &num_values_left));
    chat.messages.push_back(std::move(message));
  }
  if (!messages.tools_json().empty()) {
    constexpr char kTools[] = "messages.tools_json";
    ASSIGN_OR_RETURN(chat.tools, ParseField(kTools, messages.tools_json(), &num_values_left));
    const bool is_list = chat.tools.is_list() || chat.tools.kind == JsonTree::Kind::kIds;
    if (!is_list) return InvalidField(kTools, "is not a JSON array");
  }
  ASSIGN_OR_RETURN(chat.template_kwargs,
                   ParseObject("messages.template_kwargs_json", messages.template_kwargs_json(),
                               &num_values_left));
  if (messages.has_add_generation_prompt()) {
    chat.add_generation_prompt = messages.add_generation_prompt();
  }
  chat.continue_final_message = messages.continue_final_message();
  if (messages.has_answer_start()) {
    v1::AnswerStart& start = *messages.mutable_answer_start();
    chat.answer_start = {std::move(*start.mutable_text()),
                         std::move(*start.mutable_reasoning_open()),
                         std::move(*start.mutable_reasoning_close())};
  }
  return chat;
}

TextPrompt ToText(v1::Text message) {
  TextPrompt prompt;
  prompt.text = std::move(*message.mutable_text());
  if (message.has_add_special_tokens()) prompt.add_special_tokens = message.add_special_tokens();
  if (message.has_parse_special_tokens()) {
    prompt.parse_special_tokens = message.parse_special_tokens();
  }
  return prompt;
}

absl::StatusOr<Prompt> TakePrompt(v1::GenerateRequest& message) {
  switch (message.prompt_case()) {
    case v1::GenerateRequest::kText:
      return ToText(std::move(*message.mutable_text()));
    case v1::GenerateRequest::kTokenIds:
      return TokenIdsPrompt(message.token_ids().ids().begin(), message.token_ids().ids().end());
    case v1::GenerateRequest::kMessages:
      return ToChat(std::move(*message.mutable_messages()));
    case v1::GenerateRequest::PROMPT_NOT_SET:
      break;
  }
  return Prompt();
}

void TakeSampling(const v1::Sampling& message, Generation* asked) {
  if (message.has_temperature()) asked->temperature = message.temperature();
  if (message.has_top_p()) asked->top_p = message.top_p();
  if (message.has_top_k()) asked->top_k = message.top_k();
  if (message.has_min_p()) asked->min_p = message.min_p();
  if (message.has_repetition_penalty()) asked->repetition_penalty = message.repetition_penalty();
  asked->presence_penalty = message.presence_penalty();
  asked->frequency_penalty = message.frequency_penalty();
  if (message.has_seed()) asked->seed = message.seed();
  if (message.has_n()) asked->n = message.n();
  asked->logit_bias.insert(message.logit_bias().begin(), message.logit_bias().end());
}

void TakeStop(const v1::Stop& message, Generation* asked) {
  if (message.has_max_tokens()) asked->max_tokens = message.max_tokens();
  asked->min_tokens = message.min_tokens();
  asked->stop_strings.assign(message.stop_strings().begin(), message.stop_strings().end());
  asked->stop_token_ids.assign(message.stop_token_ids().begin(), message.stop_token_ids().end());
  asked->ignore_eos = message.ignore_eos();
  asked->include_stop_in_output = message.include_stop_in_output();
}

absl::Status TakeConstraint(v1::GenerateRequest& message, Generation* asked) {
  using Kind = ConstraintSpec::Kind;
  switch (message.constraint_case()) {
    case v1::GenerateRequest::kJsonSchema: {
      ASSIGN_OR_RETURN(asked->constraint,
                       ConstraintOfSchemaText("json_schema", message.json_schema()));
      break;
    }
    case v1::GenerateRequest::kRegex:
      asked->constraint = {
          .kind = Kind::kRegex, .text = std::move(*message.mutable_regex()), .field = "regex"};
      break;
    case v1::GenerateRequest::kGrammar:
      asked->constraint = {.kind = Kind::kGrammar,
                           .text = std::move(*message.mutable_grammar()),
                           .field = "grammar"};
      break;
    case v1::GenerateRequest::kChoice: {
      const auto& choices = message.choice().choices();
      ASSIGN_OR_RETURN(asked->constraint,
                       ConstraintOfChoices("choice", {choices.begin(), choices.end()}));
      break;
    }
    case v1::GenerateRequest::kJsonObject:
      if (message.json_object()) asked->constraint = ConstraintOfObjects("json_object");
      break;
    case v1::GenerateRequest::CONSTRAINT_NOT_SET:
      break;
  }
  return absl::OkStatus();
}

void TakeOutput(const v1::Output& message, Generation* asked) {
  if (message.has_logprobs()) asked->logprobs = message.logprobs();
  if (message.has_prompt_logprobs()) asked->prompt_logprobs = message.prompt_logprobs();
  asked->return_token_ids = message.return_token_ids();
  asked->return_prompt_token_ids = message.return_prompt_token_ids();
  if (message.has_skip_special_tokens()) asked->skip_special_tokens = message.skip_special_tokens();
  asked->shown_special_tokens.assign(message.shown_special_tokens().begin(),
                                     message.shown_special_tokens().end());
}

}  // namespace

absl::StatusOr<Generation> ToGeneration(v1::GenerateRequest message) {
  Generation asked;
  asked.names = &kQuireNames;
  asked.request_id = std::move(*message.mutable_request_id());
  asked.model = std::move(*message.mutable_model());
  ASSIGN_OR_RETURN(asked.prompt, TakePrompt(message));
  TakeSampling(message.sampling(), &asked);
  TakeStop(message.stop(), &asked);
  TakeOutput(message.output(), &asked);
  RETURN_IF_ERROR(TakeConstraint(message, &asked));
  asked.priority = message.priority();
  asked.cache_salt = std::move(*message.mutable_cache_salt());
  if (message.has_truncate_prompt_tokens()) {
    asked.truncate_prompt_tokens = message.truncate_prompt_tokens();
  }
  if (!v1::TruncationSide_IsValid(message.truncation_side())) {
    return InvalidField("truncation_side", absl::StrCat(message.truncation_side(), " is no side"));
  }
  asked.keeps_first_tokens = message.truncation_side() == v1::TRUNCATION_SIDE_RIGHT;
  return asked;
}

absl::StatusOr<Prompt> ToPrompt(v1::TokenizeRequest message) {
  switch (message.prompt_case()) {
    case v1::TokenizeRequest::kText:
      return ToText(std::move(*message.mutable_text()));
    case v1::TokenizeRequest::kMessages:
      return ToChat(std::move(*message.mutable_messages()));
    case v1::TokenizeRequest::PROMPT_NOT_SET:
      break;
  }
  return Prompt();
}

}  // namespace quire

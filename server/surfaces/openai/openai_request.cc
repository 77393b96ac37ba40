#include "server/surfaces/openai/openai_request.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/request_check.h"
#include "kernels/base/status_macros.h"
#include "server/request/field_error.h"
#include "server/surfaces/openai/chat_messages.h"
#include "server/surfaces/openai/chat_tools.h"
#include "server/surfaces/openai/common_fields.h"
#include "server/surfaces/openai/dropped_fields.h"
#include "server/surfaces/openai/field_reader.h"
#include "server/surfaces/openai/tool_choice.h"

namespace quire {

namespace {

// Each is a request of its own.
constexpr size_t kMaxPrompts = 64;
// OpenAI's and vLLM's.
constexpr int64_t kDefaultCompletionTokens = 16;

void FillStreaming(FieldReader& fields, OpenAiFormat* format) {
  format->streams = fields.Bool("stream").value_or(false);
  const JsonTree* options = fields.Find("stream_options");
  if (options == nullptr) return;
  if (!format->streams) {
    fields.Fail("stream_options", "goes with stream: true");
  } else if (!options->is_object()) {
    fields.Fail("stream_options", "is not an object");
  } else {
    FieldReader reader(*options, "stream_options.");
    format->includes_usage = reader.Bool("include_usage").value_or(false);
    format->continuous_usage =
        reader.Bool("continuous_usage_stats").value_or(false) && format->includes_usage;
    fields.Keep(reader.status());
  }
}

// What vLLM tells of tokens beyond what OpenAI does.
void FillTokenOutput(FieldReader& fields, const ModelFacts& model, OpenAiFormat* format,
                     v1::Output* output) {
  format->returns_token_ids = fields.Bool("return_token_ids").value_or(false);
  // Without a tokenizer that is all there is to tell one token from another.
  format->spells_token_ids =
      fields.Bool("return_tokens_as_token_ids").value_or(false) || !model.has_tokenizer;
  output->set_return_token_ids(format->returns_token_ids || format->continuous_usage);
  output->set_return_prompt_token_ids(format->returns_token_ids);
  const auto prompt_logprobs = fields.Int("prompt_logprobs");
  if (!prompt_logprobs.has_value()) return;
  if (format->streams) fields.Fail("prompt_logprobs", "does not go with stream: true");
  format->prompt_logprobs = true;
  output->set_prompt_logprobs(Clamp<int32_t>(*prompt_logprobs));
}

// All that completions and chats have in common.
v1::GenerateRequest FillBoth(FieldReader& fields, const ModelFacts& model,
                             absl::string_view asked_id, OpenAiFormat* format) {
  v1::GenerateRequest request =
      FillCommon(fields, format->is_chat ? "chatcmpl-" : "cmpl-", asked_id);
  FillStreaming(fields, format);
  FillTokenOutput(fields, model, format, request.mutable_output());
  format->model = request.model().empty() ? model.served_names.front() : request.model();
  format->n = std::max(1, request.sampling().has_n() ? request.sampling().n() : 1);
  format->id = request.request_id();
  return request;
}

// Whether `tree` is a prompt.
bool AddPrompt(const JsonTree& tree, std::vector<CompletionPrompt>* prompts) {
  if (tree.is_text()) {
    prompts->emplace_back(tree.text);
    return true;
  }
  auto ids = ToTokenIds(tree);
  if (!ids.has_value()) return false;
  prompts->emplace_back(*std::move(ids));
  return true;
}

// One prompt, or a list of them: each a text or a list of token ids.
void FillPrompts(FieldReader& fields, OpenAiRequest* request) {
  constexpr char kWrong[] = "is neither a text nor a list of token ids, nor a list of these";
  request->add_special_tokens = fields.Bool("add_special_tokens").value_or(true);
  const JsonTree* prompt = fields.Find("prompt");
  if (prompt == nullptr) {
    fields.Fail("prompt", "is missing");
    return;
  }
  const bool is_one = prompt->is_text() || prompt->kind == JsonTree::Kind::kIds ||
                      (prompt->is_list() && !prompt->items.empty() && prompt->items[0].is_number());
  if (is_one) {
    if (!AddPrompt(*prompt, &request->prompts)) fields.Fail("prompt", kWrong);
    return;
  }
  if (!prompt->is_list() || prompt->items.empty()) {
    fields.Fail("prompt", kWrong);
  } else if (prompt->items.size() > kMaxPrompts) {
    fields.Fail("prompt", absl::StrCat("has ", prompt->items.size(),
                                       " prompts; allowed are at most ", kMaxPrompts));
  } else {
    for (const JsonTree& item : prompt->items) {
      if (!AddPrompt(item, &request->prompts)) fields.Fail("prompt", kWrong);
    }
  }
}

// Of a chat. The newer name is told from here: an error of the request's has one name for both.
void FillMaxTokens(FieldReader& fields, v1::Stop* stop) {
  constexpr char kNewName[] = "max_completion_tokens";
  auto max_tokens = fields.Int(kNewName);
  if (!max_tokens.has_value()) {
    max_tokens = fields.Int("max_tokens");
  } else if (*max_tokens < 1) {
    fields.Fail(kNewName, absl::StrCat(*max_tokens, " is out of range; allowed is 1 and more"));
  }
  if (max_tokens.has_value()) stop->set_max_tokens(*max_tokens);
}

// What a chat's answer is taken apart for. The tags of it must be in the text to be found.
void FillMessageOptions(FieldReader& fields, const ModelAnswers& answers,
                        v1::GenerateRequest* request, OpenAiFormat* format) {
  v1::Messages* messages = request->mutable_messages();
  AnswerOptions& options = format->message.answer;
  format->message.streams = format->streams;
  format->message.shows_reasoning = fields.Bool("include_reasoning").value_or(true);
  options.reasoning = answers.reasoning();
  FillTools(fields, answers.tools(), messages, &options);
  const ToolChoice choice = ReadToolChoice(fields);
  ForceCall(fields, choice, answers, messages, &options);
  format->names_function = !choice.function.empty();
  if (options.finds_nothing()) return;
  if (!options.opening.empty()) {
    format->in_reasoning = false;
  } else if (messages->continue_final_message() && !messages->messages().empty()) {
    format->in_reasoning = answers.GoesOnInReasoning(messages->messages().rbegin()->content());
  }
  for (const TokenId token : answers.TagTokens(options.tools != ToolFormat::kNone)) {
    request->mutable_output()->add_shown_special_tokens(static_cast<uint32_t>(token));
  }
}

}  // namespace

int64_t OpenAiRequest::num_continuations() const {
  const auto num_prompts = static_cast<int64_t>(std::max<size_t>(1, prompts.size()));
  return num_prompts * std::min(format.n, kMaxContinuations);
}

std::vector<v1::GenerateRequest> RequestsOf(OpenAiRequest request) {
  std::vector<v1::GenerateRequest> requests;
  if (request.prompts.empty()) requests.push_back(std::move(request.common));
  requests.reserve(request.prompts.size());
  for (CompletionPrompt& prompt : request.prompts) {
    v1::GenerateRequest& one = requests.emplace_back(request.common);
    if (auto* text = std::get_if<std::string>(&prompt)) {
      one.mutable_text()->set_text(std::move(*text));
      one.mutable_text()->set_add_special_tokens(request.add_special_tokens);
    } else {
      const auto& ids = std::get<std::vector<uint32_t>>(prompt);
      one.mutable_token_ids()->mutable_ids()->Add(ids.begin(), ids.end());
    }
    if (requests.size() > 1) {
      one.set_request_id(absl::StrCat(request.common.request_id(), "-", requests.size() - 1));
    }
  }
  return requests;
}

absl::StatusOr<OpenAiRequest> ParseCompletion(std::string_view body, const ModelFacts& model,
                                              absl::string_view asked_id) {
  ASSIGN_OR_RETURN(const JsonTree tree, ParseBody(body));
  FieldReader fields(tree);
  OpenAiRequest request;
  OpenAiFormat& format = request.format;
  request.common = FillBoth(fields, model, asked_id, &format);
  v1::GenerateRequest& common = request.common;
  common.mutable_stop()->set_max_tokens(
      fields.Int("max_tokens").value_or(kDefaultCompletionTokens));
  fields.Refuse("suffix", "this server completes; it cannot fill in before a suffix");
  if (const auto best_of = fields.Int("best_of"); best_of.has_value() && *best_of != format.n) {
    fields.Fail("best_of", "must be as n: every continuation is returned");
  }
  format.echoes = fields.Bool("echo").value_or(false);
  if (const auto logprobs = fields.Int("logprobs")) {
    format.logprobs = true;
    common.mutable_output()->set_logprobs(Clamp<int32_t>(*logprobs));
    if (format.echoes) {
      if (format.prompt_logprobs && common.output().prompt_logprobs() != *logprobs) {
        fields.Fail("prompt_logprobs", "must be as logprobs where the prompt is echoed");
      }
      common.mutable_output()->set_prompt_logprobs(Clamp<int32_t>(*logprobs));
    }
  }
  // What is asked for then is the prompt's text, which is told here.
  if (format.echoes && common.stop().max_tokens() == 0) {
    common.mutable_output()->set_return_prompt_token_ids(true);
  }
  if (format.echoes && common.has_truncate_prompt_tokens()) {
    fields.Fail("truncate_prompt_tokens", "does not go with echo");
  }
  FillPrompts(fields, &request);
  RETURN_IF_ERROR(fields.status());
  DroppedFields::Log().Tell(fields);
  return request;
}

absl::StatusOr<OpenAiRequest> ParseChat(std::string_view body, const ModelFacts& model,
                                        const ModelAnswers& answers, absl::string_view asked_id) {
  ASSIGN_OR_RETURN(const JsonTree tree, ParseBody(body));
  FieldReader fields(tree);
  OpenAiRequest request;
  OpenAiFormat& format = request.format;
  format.is_chat = true;
  request.common = FillBoth(fields, model, asked_id, &format);
  v1::GenerateRequest& common = request.common;
  FillMaxTokens(fields, common.mutable_stop());
  RefuseAbsentOfChats(fields);
  const auto top_logprobs = fields.Int("top_logprobs");
  format.logprobs = fields.Bool("logprobs").value_or(false);
  if (format.logprobs) {
    common.mutable_output()->set_logprobs(Clamp<int32_t>(top_logprobs.value_or(0)));
  } else if (top_logprobs.value_or(0) != 0) {
    fields.Fail("top_logprobs", "goes with logprobs: true");
  }
  FillMessages(fields, common.mutable_messages());
  FillMessageOptions(fields, answers, &common, &format);
  // As vLLM's: the last message, where the answer goes on with its role.
  const auto& messages = common.messages().messages();
  if (fields.Bool("echo").value_or(false) && !messages.empty() &&
      messages.rbegin()->role() == "assistant") {
    format.echoes = true;
    format.prompts = {messages.rbegin()->content()};
  }
  if (format.echoes && !format.message.answer.finds_nothing()) {
    fields.Fail("echo", "does not go with tools, nor with a model that reasons");
  }
  RETURN_IF_ERROR(fields.status());
  DroppedFields::Log().Tell(fields);
  return request;
}

absl::StatusOr<v1::TokenizeRequest> ParseTokenize(std::string_view body) {
  ASSIGN_OR_RETURN(const JsonTree tree, ParseBody(body));
  FieldReader fields(tree);
  v1::TokenizeRequest request;
  request.set_return_tokens(fields.Bool("return_token_strs").value_or(false));
  if (fields.Find("messages") != nullptr) {
    FillMessages(fields, request.mutable_messages());
    FillTools(fields, request.mutable_messages());
  } else if (auto prompt = fields.Text("prompt")) {
    request.mutable_text()->set_text(*std::move(prompt));
    request.mutable_text()->set_add_special_tokens(
        fields.Bool("add_special_tokens").value_or(true));
  } else {
    fields.Fail("prompt", "is missing; send prompt or messages");
  }
  RETURN_IF_ERROR(fields.status());
  return request;
}

absl::StatusOr<v1::DetokenizeRequest> ParseDetokenize(std::string_view body) {
  ASSIGN_OR_RETURN(const JsonTree tree, ParseBody(body));
  FieldReader fields(tree);
  if (fields.Find("tokens") == nullptr) fields.Fail("tokens", "is missing");
  const std::vector<uint32_t> ids = fields.TokenIds("tokens");
  RETURN_IF_ERROR(fields.status());
  v1::DetokenizeRequest request;
  request.mutable_ids()->Add(ids.begin(), ids.end());
  request.set_skip_special_tokens(false);
  return request;
}

absl::Status InOpenAiTerms(absl::Status status, bool is_chat) {
  const std::string field = FieldOf(status);
  absl::string_view rest = field;
  for (const absl::string_view part : {"sampling.", "stop.", "output."}) {
    if (!absl::ConsumePrefix(&rest, part)) continue;
    if (rest == "stop_strings") rest = "stop";
    if (rest == "include_stop_in_output") rest = "include_stop_str_in_output";
    if (rest == "logprobs" && is_chat) rest = "top_logprobs";
    return InField(rest, std::move(status));
  }
  if (field == "text" || field == "token_ids") return InField("prompt", std::move(status));
  if (field == "prompt" && is_chat) return InField("messages", std::move(status));
  if (field == "ids") return InField("tokens", std::move(status));
  if (absl::string_view message = field; absl::ConsumeSuffix(&message, ".extra_json")) {
    return InField(message, std::move(status));
  }
  if (field == "messages.tools_json") return InField("tools", std::move(status));
  if (field == "messages.answer_start") return InField("tool_choice", std::move(status));
  if (field == "messages.template_kwargs_json") {
    return InField("chat_template_kwargs", std::move(status));
  }
  if (field == "messages.continue_final_message") {
    return InField("continue_final_message", std::move(status));
  }
  return status;
}

}  // namespace quire

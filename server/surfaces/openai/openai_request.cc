#include "server/surfaces/openai/openai_request.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/request_check.h"
#include "kernels/base/status_macros.h"
#include "server/surfaces/openai/chat_messages.h"
#include "server/surfaces/openai/chat_tools.h"
#include "server/surfaces/openai/common_fields.h"
#include "server/surfaces/openai/dropped_fields.h"
#include "server/surfaces/openai/field_reader.h"

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

// Reads the fields by which vLLM tells more about tokens than OpenAI does.
void FillTokenOutput(FieldReader& fields, const ModelFacts& model, OpenAiFormat* format,
                     Generation* asked) {
  format->returns_token_ids = fields.Bool("return_token_ids").value_or(false);
  // Without a tokenizer, ids are all that tells one token from another.
  format->spells_token_ids =
      fields.Bool("return_tokens_as_token_ids").value_or(false) || !model.has_tokenizer;
  asked->return_token_ids = format->returns_token_ids || format->continuous_usage;
  asked->return_prompt_token_ids = format->returns_token_ids;
  const auto prompt_logprobs = fields.Int("prompt_logprobs");
  if (!prompt_logprobs.has_value()) return;
  if (format->streams) fields.Fail("prompt_logprobs", "does not go with stream: true");
  format->prompt_logprobs = true;
  asked->prompt_logprobs = Clamp<int32_t>(*prompt_logprobs);
}

// All that completions and chats have in common.
Generation FillBoth(FieldReader& fields, const ModelFacts& model, absl::string_view asked_id,
                    OpenAiFormat* format) {
  Generation asked = FillCommon(fields, format->is_chat ? "chatcmpl-" : "cmpl-", asked_id);
  FillStreaming(fields, format);
  FillTokenOutput(fields, model, format, &asked);
  format->model = asked.model.empty() ? model.served_names.front() : asked.model;
  format->n = std::max(1, asked.n);
  format->id = asked.request_id;
  return asked;
}

// Whether `tree` is a prompt.
bool AddPrompt(const JsonTree& tree, bool add_special_tokens, std::vector<Prompt>* prompts) {
  if (tree.is_text()) {
    prompts->emplace_back(TextPrompt{.text = tree.text, .add_special_tokens = add_special_tokens});
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
  const bool adds = fields.Bool("add_special_tokens").value_or(true);
  const JsonTree* prompt = fields.Find("prompt");
  if (prompt == nullptr) {
    fields.Fail("prompt", "is missing");
    return;
  }
  const bool is_one = prompt->is_text() || prompt->kind == JsonTree::Kind::kIds ||
                      (prompt->is_list() && !prompt->items.empty() && prompt->items[0].is_number());
  if (is_one) {
    if (!AddPrompt(*prompt, adds, &request->prompts)) fields.Fail("prompt", kWrong);
    return;
  }
  if (!prompt->is_list() || prompt->items.empty()) {
    fields.Fail("prompt", kWrong);
  } else if (prompt->items.size() > kMaxPrompts) {
    fields.Fail("prompt", absl::StrCat("has ", prompt->items.size(),
                                       " prompts; allowed are at most ", kMaxPrompts));
  } else {
    for (const JsonTree& item : prompt->items) {
      if (!AddPrompt(item, adds, &request->prompts)) fields.Fail("prompt", kWrong);
    }
  }
}

// Of a chat. The newer name is told from here: an error of the request's has one name for both.
void FillMaxTokens(FieldReader& fields, Generation* asked) {
  constexpr char kNewName[] = "max_completion_tokens";
  auto max_tokens = fields.Int(kNewName);
  if (!max_tokens.has_value()) {
    max_tokens = fields.Int("max_tokens");
  } else if (*max_tokens < 1) {
    fields.Fail(kNewName, absl::StrCat(*max_tokens, " is out of range; allowed is 1 and more"));
  }
  asked->max_tokens = max_tokens;
}

// What a chat's answer is taken apart for.
void FillMessageOptions(FieldReader& fields, const ModelAnswers& answers, Generation* asked,
                        OpenAiFormat* format) {
  AnswerOptions& options = format->message.answer;
  format->message.streams = format->streams;
  format->message.shows_reasoning = fields.Bool("include_reasoning").value_or(true);
  const ChatTools tools = ReadChatTools(fields);
  FillTools(fields, tools, answers, asked, &options);
  format->names_function = !tools.choice.function.empty();
  if (options.finds_nothing()) return;
  const auto& chat = std::get<ChatPrompt>(asked->prompt);
  if (!options.opening.empty()) {
    format->in_reasoning = false;
  } else if (chat.continue_final_message && !chat.messages.empty()) {
    format->in_reasoning = answers.GoesOnInReasoning(TextOfContent(chat.messages.back()));
  }
}

// As vLLM's: a chat is echoed by its last message, where the answer goes on with its role.
void FillEcho(FieldReader& fields, const ChatPrompt& chat, OpenAiFormat* format) {
  if (!fields.Bool("echo").value_or(false) || chat.messages.empty()) return;
  const JsonTree& last = chat.messages.back();
  const JsonTree* role = last.Find("role");
  if (role == nullptr || role->text != "assistant") return;
  format->echoes = true;
  format->prompts = {TextOfContent(last)};
  if (!format->message.answer.finds_nothing()) {
    fields.Fail("echo", "does not go with tools, nor with a model that reasons");
  }
}

}  // namespace

int64_t OpenAiRequest::num_continuations() const {
  const auto num_prompts = static_cast<int64_t>(std::max<size_t>(1, prompts.size()));
  return num_prompts * std::min(format.n, kMaxContinuations);
}

std::vector<Generation> GenerationsOf(OpenAiRequest request) {
  std::vector<Generation> all;
  if (request.prompts.empty()) all.push_back(std::move(request.common));
  all.reserve(request.prompts.size());
  for (Prompt& prompt : request.prompts) {
    Generation& one = all.emplace_back(request.common);
    one.prompt = std::move(prompt);
    if (all.size() > 1) {
      one.request_id = absl::StrCat(request.common.request_id, "-", all.size() - 1);
    }
  }
  return all;
}

absl::StatusOr<OpenAiRequest> ParseCompletion(std::string_view body, const ModelFacts& model,
                                              absl::string_view asked_id) {
  ASSIGN_OR_RETURN(const JsonTree tree, ParseBody(body));
  FieldReader fields(tree);
  OpenAiRequest request;
  OpenAiFormat& format = request.format;
  request.common = FillBoth(fields, model, asked_id, &format);
  Generation& common = request.common;
  common.max_tokens = fields.Int("max_tokens").value_or(kDefaultCompletionTokens);
  fields.Refuse("suffix", "this server completes; it cannot fill in before a suffix");
  if (const auto best_of = fields.Int("best_of"); best_of.has_value() && *best_of != format.n) {
    fields.Fail("best_of", "must be as n: every continuation is returned");
  }
  format.echoes = fields.Bool("echo").value_or(false);
  if (const auto logprobs = fields.Int("logprobs")) {
    format.logprobs = true;
    common.logprobs = Clamp<int32_t>(*logprobs);
    if (format.echoes) {
      if (format.prompt_logprobs && common.prompt_logprobs != *logprobs) {
        fields.Fail("prompt_logprobs", "must be as logprobs where the prompt is echoed");
      }
      common.prompt_logprobs = common.logprobs;
    }
  }
  // Such a request asks for the prompt's text. The prompt's ids make max_tokens 0 valid.
  if (format.echoes && common.max_tokens == 0) common.return_prompt_token_ids = true;
  if (format.echoes && common.truncate_prompt_tokens.has_value()) {
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
  Generation& common = request.common;
  common.names = &kChatNames;
  FillMaxTokens(fields, &common);
  RefuseAbsentOfChats(fields);
  const auto top_logprobs = fields.Int("top_logprobs");
  format.logprobs = fields.Bool("logprobs").value_or(false);
  if (format.logprobs) {
    common.logprobs = Clamp<int32_t>(top_logprobs.value_or(0));
  } else if (top_logprobs.value_or(0) != 0) {
    fields.Fail("top_logprobs", "goes with logprobs: true");
  }
  auto& chat = common.prompt.emplace<ChatPrompt>();
  FillMessages(fields, &chat);
  FillMessageOptions(fields, answers, &common, &format);
  FillEcho(fields, chat, &format);
  RETURN_IF_ERROR(fields.status());
  DroppedFields::Log().Tell(fields);
  return request;
}

absl::StatusOr<AskedTokens> ParseTokenize(std::string_view body) {
  ASSIGN_OR_RETURN(const JsonTree tree, ParseBody(body));
  FieldReader fields(tree);
  AskedTokens asked;
  asked.spells = fields.Bool("return_token_strs").value_or(false);
  if (fields.Find("messages") != nullptr) {
    auto& chat = asked.prompt.emplace<ChatPrompt>();
    FillMessages(fields, &chat);
    FillTools(fields, ReadChatTools(fields), &chat);
  } else if (auto prompt = fields.Text("prompt")) {
    asked.prompt =
        TextPrompt{.text = *std::move(prompt),
                   .add_special_tokens = fields.Bool("add_special_tokens").value_or(true)};
  } else {
    fields.Fail("prompt", "is missing; send prompt or messages");
  }
  RETURN_IF_ERROR(fields.status());
  return asked;
}

absl::StatusOr<std::vector<uint32_t>> ParseDetokenize(std::string_view body) {
  ASSIGN_OR_RETURN(const JsonTree tree, ParseBody(body));
  FieldReader fields(tree);
  if (fields.Find("tokens") == nullptr) fields.Fail("tokens", "is missing");
  std::vector<uint32_t> ids = fields.TokenIds("tokens");
  RETURN_IF_ERROR(fields.status());
  return ids;
}

}  // namespace quire

#include "server/openai/openai_request.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kernels/base/status_macros.h"
#include "server/openai/chat_messages.h"
#include "server/openai/chat_tools.h"
#include "server/openai/field_reader.h"
#include "server/request/field_error.h"
#include "server/request/random_id.h"

namespace quire {

namespace {

// Each is a request of its own.
constexpr size_t kMaxPrompts = 64;
// OpenAI's and vLLM's.
constexpr int64_t kDefaultCompletionTokens = 16;

constexpr char kNoStructure[] =
    "this server does not constrain answers yet; leave it out, or ask for text";

template <typename Int>
Int Clamp(int64_t value) {
  return static_cast<Int>(
      std::clamp<int64_t>(value, std::numeric_limits<Int>::min(), std::numeric_limits<Int>::max()));
}

// What neither surface has, whatever the prompt.
void RefuseAbsent(FieldReader& fields) {
  for (const char* key :
       {"guided_json", "guided_regex", "guided_choice", "guided_grammar", "guided_decoding_backend",
        "guided_whitespace_pattern", "structured_outputs"}) {
    fields.Refuse(key, kNoStructure);
  }
  if (const JsonTree* format = fields.Find("response_format")) {
    const JsonTree* type = format->Find("type");
    if (type == nullptr || type->text != "text") fields.Fail("response_format", kNoStructure);
  }
  fields.RefuseUnlessFalse("use_beam_search", "this server samples; it has no beam search");
  for (const char* key : {"bad_words", "allowed_token_ids", "logits_processors",
                          "truncate_prompt_tokens", "kv_transfer_params", "prompt_embeds"}) {
    fields.Refuse(key, "is not supported by this server; leave it out");
  }
  fields.RefuseUnlessFalse("return_token_ids", "is not supported on HTTP; use gRPC");
  fields.RefuseUnlessFalse("return_tokens_as_token_ids", "is not supported by this server");
}

void FillBias(FieldReader& fields, v1::Sampling* sampling) {
  const JsonTree* bias = fields.Find("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object()) {
    fields.Fail("logit_bias", "is not an object of token ids and numbers");
    return;
  }
  for (size_t i = 0; i < bias->items.size(); ++i) {
    uint32_t id = 0;
    if (!absl::SimpleAtoi(bias->keys[i], &id) || !bias->items[i].is_number()) {
      fields.Fail("logit_bias", "is not an object of token ids and numbers");
      return;
    }
    (*sampling->mutable_logit_bias())[id] = static_cast<float>(bias->items[i].number);
  }
}

void FillSampling(FieldReader& fields, v1::Sampling* sampling) {
  const auto number = [&fields](const char* key) { return fields.Number(key); };
  if (const auto v = number("temperature")) sampling->set_temperature(static_cast<float>(*v));
  if (const auto v = number("top_p")) sampling->set_top_p(static_cast<float>(*v));
  if (const auto v = number("min_p")) sampling->set_min_p(static_cast<float>(*v));
  if (const auto v = number("repetition_penalty")) {
    sampling->set_repetition_penalty(static_cast<float>(*v));
  }
  if (const auto v = number("presence_penalty")) {
    sampling->set_presence_penalty(static_cast<float>(*v));
  }
  if (const auto v = number("frequency_penalty")) {
    sampling->set_frequency_penalty(static_cast<float>(*v));
  }
  if (const auto v = fields.Int("top_k")) sampling->set_top_k(Clamp<int32_t>(*v));
  if (const auto v = fields.Int("seed")) sampling->set_seed(static_cast<uint64_t>(*v));
  if (const auto v = fields.Int("n")) sampling->set_n(Clamp<int32_t>(*v));
  FillBias(fields, sampling);
}

void FillStop(FieldReader& fields, v1::Stop* stop) {
  if (const auto v = fields.Int("min_tokens")) stop->set_min_tokens(*v);
  for (std::string& text : fields.Texts("stop")) stop->add_stop_strings(std::move(text));
  const std::vector<uint32_t> ids = fields.TokenIds("stop_token_ids");
  stop->mutable_stop_token_ids()->Add(ids.begin(), ids.end());
  if (const auto v = fields.Bool("ignore_eos")) stop->set_ignore_eos(*v);
  if (const auto v = fields.Bool("include_stop_str_in_output")) {
    stop->set_include_stop_in_output(*v);
  }
}

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
    format->continuous_usage = reader.Bool("continuous_usage_stats").value_or(false);
    fields.Keep(reader.status());
  }
}

// All that completions and chats have in common.
v1::GenerateRequest FillCommon(FieldReader& fields, const ModelFacts& model, OpenAiFormat* format) {
  v1::GenerateRequest request;
  RefuseAbsent(fields);
  FillSampling(fields, request.mutable_sampling());
  FillStop(fields, request.mutable_stop());
  FillStreaming(fields, format);
  if (const auto v = fields.Bool("skip_special_tokens")) {
    request.mutable_output()->set_skip_special_tokens(*v);
  }
  if (format->continuous_usage) request.mutable_output()->set_return_token_ids(true);
  fields.Refuse("prompt_logprobs", "is not supported on HTTP; ask for echo and logprobs");
  if (const auto v = fields.Int("priority")) request.set_priority(Clamp<int32_t>(*v));
  if (auto v = fields.Text("cache_salt")) request.set_cache_salt(*std::move(v));
  if (auto v = fields.Text("model")) request.set_model(*std::move(v));
  format->model = request.model().empty() ? model.served_names.front() : request.model();
  format->n = std::max(1, request.sampling().has_n() ? request.sampling().n() : 1);
  format->id = fields.Text("request_id").value_or("");
  if (format->id.empty())
    format->id = absl::StrCat(format->is_chat ? "chatcmpl-" : "cmpl-", RandomId());
  request.set_request_id(format->id);
  return request;
}

absl::StatusOr<JsonTree> ParseBody(std::string_view body) {
  size_t num_values = 0;
  ASSIGN_OR_RETURN(JsonTree tree, ParseJsonTree(body, &num_values));
  if (!tree.is_object()) return absl::InvalidArgumentError("the body is not a JSON object");
  return tree;
}

bool AddPrompt(const JsonTree& prompt, bool add_special_tokens, const v1::GenerateRequest& common,
               std::vector<v1::GenerateRequest>* requests) {
  v1::GenerateRequest request = common;
  if (prompt.is_text()) {
    request.mutable_text()->set_text(prompt.text);
    request.mutable_text()->set_add_special_tokens(add_special_tokens);
  } else {
    const auto ids = ToTokenIds(prompt);
    if (!ids.has_value()) return false;
    request.mutable_token_ids()->mutable_ids()->Add(ids->begin(), ids->end());
  }
  requests->push_back(std::move(request));
  return true;
}

// One prompt, or a list of them: each a text or a list of token ids.
void AddPrompts(FieldReader& fields, const v1::GenerateRequest& common,
                std::vector<v1::GenerateRequest>* requests) {
  constexpr char kWrong[] = "is neither a text nor a list of token ids, nor a list of these";
  const bool add_special_tokens = fields.Bool("add_special_tokens").value_or(true);
  const JsonTree* prompt = fields.Find("prompt");
  if (prompt == nullptr) {
    fields.Fail("prompt", "is missing");
    return;
  }
  const bool is_one = prompt->is_text() ||
                      (prompt->is_list() && !prompt->items.empty() && prompt->items[0].is_number());
  if (is_one) {
    if (!AddPrompt(*prompt, add_special_tokens, common, requests)) fields.Fail("prompt", kWrong);
    return;
  }
  if (!prompt->is_list() || prompt->items.empty()) {
    fields.Fail("prompt", kWrong);
  } else if (prompt->items.size() > kMaxPrompts) {
    fields.Fail("prompt", absl::StrCat("has ", prompt->items.size(),
                                       " prompts; allowed are at most ", kMaxPrompts));
  } else {
    for (const JsonTree& item : prompt->items) {
      if (!AddPrompt(item, add_special_tokens, common, requests)) fields.Fail("prompt", kWrong);
    }
  }
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
  if (options.finds_nothing()) return;
  if (messages->continue_final_message() && !messages->messages().empty()) {
    format->in_reasoning = answers.GoesOnInReasoning(messages->messages().rbegin()->content());
  }
  for (const TokenId token : answers.TagTokens(options.tools != ToolFormat::kNone)) {
    request->mutable_output()->add_shown_special_tokens(static_cast<uint32_t>(token));
  }
}

}  // namespace

absl::StatusOr<OpenAiRequest> ParseCompletion(std::string_view body, const ModelFacts& model) {
  ASSIGN_OR_RETURN(const JsonTree tree, ParseBody(body));
  FieldReader fields(tree);
  OpenAiRequest request;
  OpenAiFormat& format = request.format;
  v1::GenerateRequest common = FillCommon(fields, model, &format);
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
    if (format.echoes) common.mutable_output()->set_prompt_logprobs(Clamp<int32_t>(*logprobs));
  }
  AddPrompts(fields, common, &request.requests);
  RETURN_IF_ERROR(fields.status());
  for (size_t i = 1; i < request.requests.size(); ++i) {
    request.requests[i].set_request_id(absl::StrCat(format.id, "-", i));
  }
  return request;
}

absl::StatusOr<OpenAiRequest> ParseChat(std::string_view body, const ModelFacts& model,
                                        const ModelAnswers& answers) {
  ASSIGN_OR_RETURN(const JsonTree tree, ParseBody(body));
  FieldReader fields(tree);
  OpenAiRequest request;
  OpenAiFormat& format = request.format;
  format.is_chat = true;
  v1::GenerateRequest common = FillCommon(fields, model, &format);
  auto max_tokens = fields.Int("max_completion_tokens");
  if (!max_tokens.has_value()) max_tokens = fields.Int("max_tokens");
  if (max_tokens.has_value()) common.mutable_stop()->set_max_tokens(*max_tokens);
  RefuseAbsentOfChats(fields);
  fields.RefuseUnlessFalse("echo", "of a chat is not supported by this server");
  const auto top_logprobs = fields.Int("top_logprobs");
  format.logprobs = fields.Bool("logprobs").value_or(false);
  if (format.logprobs) {
    common.mutable_output()->set_logprobs(Clamp<int32_t>(top_logprobs.value_or(0)));
  } else if (top_logprobs.value_or(0) != 0) {
    fields.Fail("top_logprobs", "goes with logprobs: true");
  }
  FillMessages(fields, common.mutable_messages());
  FillMessageOptions(fields, answers, &common, &format);
  RETURN_IF_ERROR(fields.status());
  request.requests.push_back(std::move(common));
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

absl::Status InOpenAiTerms(absl::Status status) {
  const std::string field = FieldOf(status);
  absl::string_view rest = field;
  for (const absl::string_view part : {"sampling.", "stop.", "output."}) {
    if (!absl::ConsumePrefix(&rest, part)) continue;
    if (rest == "stop_strings") rest = "stop";
    if (rest == "include_stop_in_output") rest = "include_stop_str_in_output";
    return InField(rest, std::move(status));
  }
  if (field == "text" || field == "token_ids") return InField("prompt", std::move(status));
  if (field == "ids") return InField("tokens", std::move(status));
  if (absl::string_view message = field; absl::ConsumeSuffix(&message, ".extra_json")) {
    return InField(message, std::move(status));
  }
  if (field == "messages.tools_json") return InField("tools", std::move(status));
  if (field == "messages.template_kwargs_json") {
    return InField("chat_template_kwargs", std::move(status));
  }
  if (field == "messages.continue_final_message") {
    return InField("continue_final_message", std::move(status));
  }
  return status;
}

}  // namespace quire

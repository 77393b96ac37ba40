#include "server/surfaces/responses/responses_request.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/base/status_macros.h"
#include "server/surfaces/openai/chat_tools.h"
#include "server/surfaces/openai/common_fields.h"
#include "server/surfaces/openai/constraint_fields.h"
#include "server/surfaces/openai/dropped_fields.h"
#include "server/surfaces/openai/field_reader.h"
#include "server/surfaces/responses/responses_input.h"
#include "server/text/json_text.h"

namespace quire {

namespace {

// OpenAI's.
constexpr size_t kMaxPairs = 16;
constexpr size_t kMaxKeyBytes = 64;
constexpr size_t kMaxValueBytes = 512;

constexpr char kLogprobs[] = "message.output_text.logprobs";

// Conversations that live in the server, and work that goes on without its client.
void RefuseState(FieldReader& fields) {
  for (const char* key : {"previous_response_id", "conversation"}) {
    fields.Refuse(key, "this server stores no responses; send the whole conversation as input");
  }
  fields.Refuse("prompt", "this server stores no prompts; send instructions and input");
  fields.RefuseUnlessFalse("background", "this server stores no responses; stream them instead");
  fields.Refuse("context_management", "this server compacts nothing; leave it out");
  if (fields.Text("truncation").value_or("disabled") != "disabled") {
    fields.Fail("truncation", "this server leaves out nothing of a conversation: disabled");
  }
}

void RefuseText(FieldReader& fields) {
  const JsonTree* text = fields.Find("text");
  if (text == nullptr) return;
  if (text->Find("verbosity") != nullptr) {
    fields.Fail("text.verbosity", "this server cannot change how much a model says; ask it to");
  }
}

const JsonTree* FormatOf(const FieldReader& fields) {
  const JsonTree* text = fields.Find("text");
  return text != nullptr ? text->Find("format") : nullptr;
}

void RefuseAbsentOfResponses(FieldReader& fields) {
  fields.RefuseName("response_format", "text.format");
  RefuseState(fields);
  fields.Refuse("max_tool_calls", "this server runs no tools of its own; leave it out");
  RefuseText(fields);
  for (const char* key : {"moderation", "prompt_logprobs", "echo"}) {
    fields.Refuse(key, "is not supported by this server; leave it out");
  }
  for (const char* key : {"return_token_ids", "enable_response_messages"}) {
    fields.RefuseUnlessFalse(key, "is not supported for responses by this server");
  }
  if (fields.Int("n").value_or(1) != 1) fields.Fail("n", "a response has one answer");
  if (const JsonTree* options = fields.Find("stream_options")) {
    FieldReader reader(*options, "stream_options.");
    reader.RefuseUnlessFalse("include_obfuscation", "this server hides no lengths: false");
    fields.Keep(reader.status());
  }
}

// Reads what the client asks to have included. Clients may list several things; Quire can include
// only logprobs.
void FillIncluded(FieldReader& fields, ResponsesFormat* format, Generation* asked) {
  for (const std::string& name : fields.Texts("include")) {
    // Quire has nothing for the other names: it has no tools of its own, and its reasoning is in
    // the open.
    const bool is_known = name == kLogprobs || name == "reasoning.encrypted_content" ||
                          absl::EndsWith(name, "_call.results") ||
                          absl::EndsWith(name, "_call.outputs") ||
                          absl::EndsWith(name, ".image_url") || absl::EndsWith(name, ".sources");
    if (!is_known) fields.Fail("include", absl::StrCat(JsonString(name), " is not known"));
    format->logprobs |= name == kLogprobs;
  }
  const auto top_logprobs = fields.Int("top_logprobs");
  if (format->logprobs) {
    asked->logprobs = Clamp<int32_t>(top_logprobs.value_or(0));
  } else if (top_logprobs.value_or(0) != 0) {
    fields.Fail("top_logprobs", absl::StrCat("goes with include: [\"", kLogprobs, "\"]"));
  }
}

std::string MetadataJson(FieldReader& fields) {
  const JsonTree* metadata = fields.Find("metadata");
  if (metadata == nullptr) return "{}";
  bool is_sound = metadata->is_object() && metadata->items.size() <= kMaxPairs;
  for (size_t i = 0; is_sound && i < metadata->items.size(); ++i) {
    is_sound = metadata->items[i].is_text() && metadata->keys[i].size() <= kMaxKeyBytes &&
               metadata->items[i].text.size() <= kMaxValueBytes;
  }
  if (!is_sound) {
    fields.Fail("metadata",
                absl::StrCat("is not an object of at most ", kMaxPairs, " texts, with names of ",
                             kMaxKeyBytes, " bytes and values of ", kMaxValueBytes));
    return "{}";
  }
  return ToJson(*metadata);
}

// A client's own name for something: it comes back as it is.
std::string LabelJson(FieldReader& fields, const char* key) {
  const auto label = fields.Text(key);
  if (!label.has_value()) return "null";
  if (label->size() > kMaxValueBytes) {
    fields.Fail(key, absl::StrCat("has more than ", kMaxValueBytes, " bytes"));
  }
  return JsonString(*label);
}

std::string OrNull(std::optional<int64_t> number) {
  return number.has_value() ? absl::StrCat(*number) : "null";
}

// `Text` of a field that is one; the reader has refused another kind.
std::string TextJson(const FieldReader& fields, const char* key) {
  const JsonTree* text = fields.Find(key);
  return text != nullptr ? ToJson(*text) : "null";
}

// The members by which an answer repeats the request, so that the client sees which defaults held.
std::string RequestMembers(FieldReader& fields, const ModelFacts& model, const Generation& asked,
                           const ResponsesTools& tools) {
  const JsonTree* choice = fields.Find("tool_choice");
  const JsonTree* format = FormatOf(fields);
  const double temperature =
      fields.Number("temperature").value_or(model.defaults.temperature.value_or(1.0f));
  const double top_p = fields.Number("top_p").value_or(model.defaults.top_p.value_or(1.0f));
  const std::optional<std::string> effort = ReasoningEffort(fields);
  const std::string& name = asked.model.empty() ? model.served_names.front() : asked.model;
  return absl::StrCat(
      "\"model\": ", JsonString(name), ", \"instructions\": ", TextJson(fields, "instructions"),
      ", \"metadata\": ", MetadataJson(fields),
      ", \"max_output_tokens\": ", OrNull(fields.Int("max_output_tokens")),
      ", \"temperature\": ", absl::StrFormat("%.6g", temperature),
      ", \"top_p\": ", absl::StrFormat("%.6g", top_p),
      ", \"top_logprobs\": ", fields.Int("top_logprobs").value_or(0), ", \"parallel_tool_calls\": ",
      fields.Bool("parallel_tool_calls").value_or(true) ? "true" : "false",
      ", \"tool_choice\": ", choice != nullptr ? ToJson(*choice) : "\"auto\"",
      ", \"tools\": ", tools.json,
      ", \"prompt_cache_key\": ", LabelJson(fields, "prompt_cache_key"),
      ", \"safety_identifier\": ", LabelJson(fields, "safety_identifier"),
      ", \"user\": ", LabelJson(fields, "user"),
      ", \"reasoning\": {\"effort\": ", effort.has_value() ? JsonString(*effort) : "null",
      ", \"summary\": null}",
      ", \"background\": false, \"store\": false, \"previous_response_id\": null, "
      "\"max_tool_calls\": null, "
      "\"service_tier\": \"default\", \"text\": {\"format\": ",
      format != nullptr ? ToJson(*format) : "{\"type\": \"text\"}",
      "}, \"truncation\": \"disabled\"");
}

}  // namespace

absl::StatusOr<ResponsesRequest> ParseResponses(std::string_view body, const ModelFacts& model,
                                                const ModelAnswers& answers,
                                                absl::string_view asked_id) {
  ASSIGN_OR_RETURN(const JsonTree tree, ParseBody(body));
  FieldReader fields(tree);
  ResponsesRequest request;
  ResponsesFormat& format = request.format;
  RefuseAbsentOfResponses(fields);
  Generation& asked = request.asked;
  asked = FillCommon(fields, "resp_", asked_id);
  asked.names = &kResponsesNames;
  if (const JsonTree* format = FormatOf(fields); format != nullptr) {
    FillFormat(fields, *format, "text.format", &asked);
  }
  format.streams = fields.Bool("stream").value_or(false);
  format.id = asked.request_id;
  asked.max_tokens = fields.Int("max_output_tokens");
  fields.Bool("store");
  FillIncluded(fields, &format, &asked);
  FillInput(fields, &asked.prompt.emplace<ChatPrompt>());
  ResponsesTools tools = ReadTools(fields);
  FillTools(fields, tools.chat, answers, &asked, &format.answer);
  if (!format.answer.opening.empty()) format.in_reasoning = false;
  asked.return_token_ids = !format.answer.reasoning.is_none();  // those of reasoning are counted
  format.members = RequestMembers(fields, model, asked, tools);
  format.namespaced = std::move(tools.namespaced);
  RETURN_IF_ERROR(fields.status());
  DroppedFields::Log().Tell(fields);
  return request;
}

absl::StatusOr<Prompt> ParseInputTokens(std::string_view body) {
  ASSIGN_OR_RETURN(const JsonTree tree, ParseBody(body));
  FieldReader fields(tree);
  RefuseAbsentOfResponses(fields);
  ChatPrompt chat;
  FillInput(fields, &chat);
  FillTools(fields, ReadTools(fields).chat, &chat);
  RETURN_IF_ERROR(fields.status());
  return chat;
}

}  // namespace quire

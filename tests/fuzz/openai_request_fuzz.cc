// The body of an OpenAI request, or of Anthropic's messages: it is refused with a sentence, or what
// becomes of it is a request that the engine accepts, and what a response says of it again is JSON.
// Input: a byte that says which surface, then the body.
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/request_check.h"
#include "kernels/base/check.h"
#include "server/request/generate/prompt_encoder.h"
#include "server/request/parameters.h"
#include "server/surfaces/anthropic/messages_request.h"
#include "server/surfaces/openai/openai_request.h"
#include "server/surfaces/responses/responses_request.h"
#include "server/text/json_tree.h"
#include "tests/fuzz/target.h"

namespace quire::fuzz {
namespace {

ModelFacts Facts() {
  ModelFacts facts;
  facts.served_names = {"demo"};
  facts.vocab_size = 2048;
  facts.max_model_len = 512;
  facts.eos_token_ids = {2047};
  return facts;
}

void CheckRefusal(const absl::Status& status) {
  CHECK(absl::IsInvalidArgument(status) || absl::IsNotFound(status)) << status;
  CHECK(!status.message().empty());
}

// A text is one token long.
void Accept(const Generation& asked, const ModelFacts& facts) {
  absl::StatusOr<GenerationJob> job = ConvertParameters(asked, facts, /*random_seed=*/1);
  if (!job.ok()) return CheckRefusal(job.status());
  std::vector<TokenId> prompt = {1};
  if (const auto* sent = std::get_if<TokenIdsPrompt>(&asked.prompt)) {
    absl::StatusOr<std::vector<TokenId>> ids = ConvertPromptIds(*sent, facts, *job);
    if (!ids.ok()) return CheckRefusal(ids.status());
    prompt = *std::move(ids);
  }
  if (absl::Status set = SetPrompt(std::move(prompt), facts, &*job); !set.ok()) {
    return CheckRefusal(set);
  }
  ModelInfo info;
  info.config.vocab_size = facts.vocab_size;
  info.max_model_len = facts.max_model_len;
  const absl::Status checked = CheckRequest(job->request, info);
  CHECK(checked.ok()) << checked;
  ++num_accepted;
}

void TryCompletion(std::string_view body, const ModelFacts& facts) {
  const absl::StatusOr<OpenAiRequest> request = ParseCompletion(body, facts);
  if (!request.ok()) return CheckRefusal(request.status());
  for (const Generation& one : GenerationsOf(*request)) Accept(one, facts);
}

const ModelAnswers& Answers() {
  static const ModelAnswers& answers = *new ModelAnswers(
      "hermes", "qwen3", PromptEncoder::WithoutTokenizer()->tokenizer(), /*chat_templates=*/"");
  return answers;
}

void TryResponse(std::string_view body, const ModelFacts& facts) {
  const absl::StatusOr<ResponsesRequest> request = ParseResponses(body, facts, Answers());
  if (!request.ok()) return CheckRefusal(request.status());
  size_t num_values_left = kMaxJsonValues;
  const auto members =
      ParseJsonTree(absl::StrCat("{", request->format.members, "}"), &num_values_left);
  // Only of values that the request's own limits refuse it need not be.
  if (ConvertParameters(request->asked, facts, 1).ok()) CHECK(members.ok()) << members.status();
  CHECK(std::holds_alternative<ChatPrompt>(request->asked.prompt));
  Accept(request->asked, facts);
}

void TryMessage(std::string_view body, const ModelFacts& facts) {
  const absl::StatusOr<MessagesRequest> request = ParseMessages(body, facts, Answers());
  if (!request.ok()) return CheckRefusal(request.status());
  Accept(request->asked, facts);
}

}  // namespace

std::vector<std::string> Seeds() {
  return {
      R"(m{"max_tokens":9,"system":"s","stop_sequences":["x"],"messages":[{"role":"user","content":"a"}]})",
      R"(m{"max_tokens":9,"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t"},)"
      R"({"type":"tool_use","id":"1","name":"f","input":{"a":1}}]},{"role":"user","content":[)"
      R"({"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"r"}]}]}],)"
      R"("tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"f"}})",
      R"(c{"model":"demo","prompt":["a",[1,2]],"n":2,"logprobs":1,"echo":true,"stop":["x"]})",
      R"(c{"prompt":[1,2,3],"truncate_prompt_tokens":2,"return_token_ids":true,"seed":4})",
      R"(c{"prompt":"x","stream":true,"stream_options":{"include_usage":true},"logit_bias":{"7":1}})",
      R"(c{"prompt":"x","structured_outputs":{"json":"{}","disable_any_whitespace":true}})",
      R"(c{"prompt":"x","guided_choice":["a"],"response_format":{"type":"json_schema",)"
      R"("json_schema":{"name":"n","schema":{"type":"object"}}}})",
      R"(r{"input":"x","text":{"format":{"type":"json_object"}}})",
      R"(r{"input":"x","instructions":"y","metadata":{"a":"b"},"user":"me","max_output_tokens":3})",
      R"(r{"input":[{"role":"user","content":[{"type":"input_text","text":"x"}]},{"type":"reasoning",)"
      R"("content":[{"type":"reasoning_text","text":"z"}]},{"role":"assistant","content":"y"}]})",
      R"(r{"input":"x","include":["message.output_text.logprobs"],"top_logprobs":2,"text":{},)"
      R"("tools":[],"tool_choice":"none","temperature":0.5,"reasoning":{"effort":null}})",
      R"(r{"input":[{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},)"
      R"({"type":"function_call_output","call_id":"a","output":"x"}],"tool_choice":"required",)"
      R"("tools":[{"type":"function","name":"f"},{"type":"namespace","name":"n","tools":[)"
      R"({"type":"function","name":"g"}]},{"type":"web_search"}]})",
      R"(t{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]})",
      R"(t{"prompt":"x","add_special_tokens":false})"};
}

std::vector<std::string> Dictionary() {
  return {"\"input\"",       "\"prompt\"",       "\"messages\"",
          "\"role\"",        "\"content\"",      "\"type\"",
          "\"metadata\"",    "\"instructions\"", "\"include\"",
          "\"tool_choice\"", "\"temperature\"",  "\"top_p\"",
          "1e999",           "1e-999",           "-0",
          "\"max_tokens\"",  "\"reasoning\"",    "\"output_text\"",
          "\"developer\"",   "\\ud83d"};
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;  // NOLINT(build/namespaces)
  static const ModelFacts& facts = *new ModelFacts(fuzz::Facts());
  fuzz::InputReader input(data, size);
  const uint8_t surface = input.TakeByte();
  if (surface == 'r') {
    fuzz::TryResponse(input.rest(), facts);
  } else if (surface == 'm') {
    fuzz::TryMessage(input.rest(), facts);
  } else if (surface == 't') {
    const absl::StatusOr<AskedTokens> request = ParseTokenize(input.rest());
    if (!request.ok()) fuzz::CheckRefusal(request.status());
  } else {
    fuzz::TryCompletion(input.rest(), facts);
  }
  return 0;
}

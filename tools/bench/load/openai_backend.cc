// OpenAI's interface over HTTP/1.1: completions and chats, as vLLM, llama.cpp and others serve it.

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/json/parse_json.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/json_values.h"
#include "tools/bench/load/load_backend.h"
#include "tools/bench/load/openai_events.h"
#include "tools/bench/load/sse_reader.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

class OpenAiDecoder final : public AnswerDecoder {
 public:
  explicit OpenAiDecoder(bool keeps_answer) : keeps_answer_(keeps_answer) {}

  void Take(std::string_view bytes, AnswerSoFar* answer) override {
    events_.Add(bytes);
    std::string_view data;
    while (events_.Next(&data)) {
      if (data != "[DONE]") TakeOpenAiChunk(data, keeps_answer_, answer);
    }
  }

  // Servers that give up an answer, for another request or because something of theirs has died,
  // may end its stream as they end others, even with [DONE].
  void End(AnswerSoFar* answer) const override {
    const bool has_end = !answer->finish_reason.empty();
    if (!answer->problem.empty() || has_end == (answer->num_tokens > 0)) return;
    answer->problem =
        has_end ? absl::StrCat("no token came: the answer ended at once (finish_reason ",
                               answer->finish_reason, ")")
                : "the server gave up the answer: its stream ended without a finish_reason";
  }

 private:
  const bool keeps_answer_;
  SseReader events_;
};

// What OpenAI's own interface has not is only sent when it does something: servers differ in what
// else they take.
void AddSampling(const SamplingFlags& flags, Json* body) {
  const SamplingFlags off;
  const Json all = SamplingJson(flags);
  (*body)["temperature"] = all["temperature"];
  (*body)["top_p"] = all["top_p"];
  const auto add = [&](const char* key, bool differs) {
    if (differs) (*body)[key] = all[key];
  };
  add("top_k", flags.top_k != off.top_k);
  add("min_p", flags.min_p != off.min_p);
  add("repetition_penalty", flags.repetition_penalty != off.repetition_penalty);
  add("presence_penalty", flags.presence_penalty != off.presence_penalty);
  add("frequency_penalty", flags.frequency_penalty != off.frequency_penalty);
  add("ignore_eos", flags.ignore_eos);
}

class OpenAiBackend final : public LoadBackend {
 public:
  OpenAiBackend(BackendOptions options, bool is_chat)
      : options_(std::move(options)), is_chat_(is_chat), model_(options_.model) {}

  bool is_http2() const override { return false; }

  ClientRequest ModelRequest() const override {
    return {.method = "GET", .path = "/v1/models", .headers = Headers(), .body = {}};
  }

  absl::StatusOr<ServedModel> ReadModel(const std::string& body) override {
    const Json json = ParseJson<Json>(body);
    const Json& data = MemberOf(json, "data");
    if (!data.is_array() || data.empty()) {
      return absl::InternalError("/v1/models has no list of models");
    }
    ServedModel model;
    std::vector<std::string> served;
    for (const Json& one : data) {
      const auto name = StringAt(one, "id");
      if (!name.has_value()) continue;
      served.push_back(*name);
      if (!model.name.empty() || (!options_.model.empty() && *name != options_.model)) continue;
      model.name = *name;
      model.max_model_len = IntegerAt(one, "max_model_len").value_or(0);
    }
    RETURN_IF_ERROR(CheckServed(options_, served));
    if (model.name.empty()) return absl::InternalError("/v1/models names no model");
    model_ = model.name;
    model.lines = {{"model", model.max_model_len > 0 ? absl::StrCat(model.name, ", context of ",
                                                                    model.max_model_len, " tokens")
                                                     : model.name}};
    return model;
  }

  // vLLM's and SGLang's.
  std::vector<ClientRequest> FlushRequests() const override {
    std::vector<ClientRequest> requests;
    for (const char* path : {"/reset_prefix_cache", "/flush_cache"}) {
      requests.push_back({.path = path, .headers = Headers()});
    }
    return requests;
  }

  ClientRequest GenerateRequest(const WorkItem& item, uint64_t seed,
                                const std::string& id) const override {
    Json body = {
        {"model", model_}, {"stream", true}, {"stream_options", {{"include_usage", true}}}};
    if (is_chat_) {
      body["messages"] = Messages(item);
      body["max_completion_tokens"] = item.output_len;
      body["max_tokens"] = item.output_len;  // its older name: some servers know no other
    } else {
      if (item.prompt.empty()) {
        body["prompt"] = item.text;
      } else {
        body["prompt"] = item.prompt;
      }
      body["max_tokens"] = item.output_len;
    }
    if (!item.stop.empty()) body["stop"] = item.stop;
    AddLogprobs(&body);
    AddSampling(options_.sampling, &body);
    body["seed"] = seed & 0x7fffffff;
    if (!options_.json_schema.empty()) {
      body["response_format"] = {
          {"type", "json_schema"},
          {"json_schema", {{"name", "answer"}, {"schema", ParseJson<Json>(options_.json_schema)}}}};
    }
    if (!options_.extra_body.empty()) body.update(ParseJson<Json>(options_.extra_body));
    ClientRequest request = {.path = options_.endpoint, .headers = Headers(), .body = body.dump()};
    if (request.path.empty()) {
      request.path = is_chat_ ? "/v1/chat/completions" : "/v1/completions";
    }
    request.headers.emplace_back("content-type", "application/json");
    request.headers.emplace_back("x-request-id", id);
    return request;
  }

  std::unique_ptr<AnswerDecoder> NewDecoder() const override {
    return std::make_unique<OpenAiDecoder>(options_.keeps_answers);
  }

  std::string Problem(const AnswerEnd& end, std::string_view body) const override {
    if (!end.problem.empty()) return end.problem;
    if (end.http_status >= 200 && end.http_status < 300) return "";
    return absl::StrCat("HTTP ", end.http_status, ": ", OpenAiErrorText(body));
  }

 private:
  static Json Messages(const WorkItem& item) {
    if (item.messages.empty()) return {{{"role", "user"}, {"content", item.text}}};
    auto messages = Json::array();
    for (const auto& [role, content] : item.messages) {
      messages.push_back({{"role", role}, {"content", content}});
    }
    return messages;
  }

  void AddLogprobs(Json* body) const {
    if (options_.wants_prompt_logprobs) (*body)["echo"] = true;
    if (!options_.wants_logprobs && !options_.wants_prompt_logprobs) return;
    if (is_chat_) {
      (*body)["logprobs"] = true;
    } else {
      (*body)["logprobs"] = 1;  // some servers take 0 for none
    }
  }

  HeaderList Headers() const {
    HeaderList headers = options_.headers;
    if (!options_.authorization.empty()) {
      headers.emplace_back("authorization", options_.authorization);
    }
    return headers;
  }

  const BackendOptions options_;
  const bool is_chat_;
  std::string model_;  // the name that requests ask for
};

}  // namespace

std::unique_ptr<LoadBackend> MakeOpenAiBackend(BackendOptions options, bool is_chat) {
  return std::make_unique<OpenAiBackend>(std::move(options), is_chat);
}

absl::Status CheckServed(const BackendOptions& options, const std::vector<std::string>& served) {
  if (options.model.empty() || absl::c_linear_search(served, options.model)) {
    return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat("no model \"", options.model, "\" is served, but \"",
                                          absl::StrJoin(served, "\", \""),
                                          "\"; leave --model out, or give such a name"));
}

std::unique_ptr<LoadBackend> MakeLoadBackend(std::string_view name, BackendOptions options) {
  if (name == "quire") return MakeQuireBackend(std::move(options));
  if (name == "vllm-grpc") return MakeVllmGrpcBackend(std::move(options));
  CHECK(name == "openai" || name == "openai-chat") << name;
  return MakeOpenAiBackend(std::move(options), name == "openai-chat");
}

}  // namespace quire::bench

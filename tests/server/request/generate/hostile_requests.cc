// The cost of requests that were made to cost much. Each is about a megabyte, and has a line with
// the time until it has tokens or is refused, and the steps of its fuel. Run by
// tools/tokenizer/hostile_requests.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "server/request/generate/prompt.h"
#include "server/request/generate/prompt_encoder.h"
#include "server/request/request_fuel.h"
#include "server/surfaces/grpc/request_messages.h"

namespace quire {
namespace {

constexpr size_t kBytes = size_t{1} << 20;

std::string Repeat(std::string_view unit, std::string_view separator = "") {
  std::string text(unit);
  while (text.size() < kBytes) text.append(separator).append(unit);
  return text;
}

std::string Keys() {
  std::string json = "{";
  for (int i = 0; json.size() < kBytes; ++i) {
    json += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":1";
  }
  return json + "}";
}

v1::GenerateRequest Chat(const std::string& content = "Hello") {
  v1::GenerateRequest request;
  v1::Message& message = *request.mutable_messages()->add_messages();
  message.set_role("user");
  message.set_content(content);
  return request;
}

v1::GenerateRequest WithExtra(const std::string& json) {
  v1::GenerateRequest request = Chat();
  request.mutable_messages()->mutable_messages(0)->set_extra_json(json);
  return request;
}

v1::GenerateRequest WithTools(const std::string& json) {
  v1::GenerateRequest request = Chat();
  request.mutable_messages()->set_tools_json(json);
  return request;
}

v1::GenerateRequest WithKwargs(const std::string& json) {
  v1::GenerateRequest request = Chat();
  request.mutable_messages()->set_template_kwargs_json(json);
  return request;
}

v1::GenerateRequest ManyMessages() {
  v1::GenerateRequest request;
  for (int i = 0; i < 4096; ++i) {
    v1::Message& message = *request.mutable_messages()->add_messages();
    message.set_role(i % 2 == 0 ? "user" : "assistant");
    message.set_content(std::string(240, 'a'));
  }
  return request;
}

v1::GenerateRequest Text(const std::string& text) {
  v1::GenerateRequest request;
  request.mutable_text()->set_text(text);
  return request;
}

struct Case {
  std::string name;
  v1::GenerateRequest request;
  std::string chat_template;  // empty: the model's own
};

std::vector<Case> Requests() {
  std::vector<Case> cases = {
      {"distinct keys, extra_json", WithExtra(Keys()), ""},
      {"distinct keys, tools_json", WithTools("[" + Keys() + "]"), ""},
      {"distinct keys, kwargs", WithKwargs(Keys()), ""},
      {"one key again and again", WithKwargs("{" + Repeat("\"a\":1", ",") + "}"), ""},
      {"empty lists", WithTools("[" + Repeat("[]", ",") + "]"), ""},
      {"empty objects", WithTools("[" + Repeat("{}", ",") + "]"), ""},
      {"small objects", WithTools("[" + Repeat("{\"a\":{\"b\":1}}", ",") + "]"), ""},
      {"deep objects", WithTools(Repeat("{\"a\":")), ""},
      {"deep lists",
       WithTools("[" + Repeat(std::string(60, '[') + std::string(60, ']'), ",") + "]"), ""},
      {"floats", WithTools("[" + Repeat("1.2345678901234567e-300", ",") + "]"), ""},
      {"one long number", WithTools("[" + Repeat("7") + "]"), ""},
      {"one long float", WithTools("[0." + Repeat("7") + "e-7]"), ""},
      {"escapes", WithTools("[\"" + Repeat("\\u0001") + "\"]"), ""},
      {"a long string", WithTools("[\"" + Repeat("a") + "\"]"), ""},
      {"many messages", ManyMessages(), ""},
  };
  for (const auto& [name, unit] :
       {std::pair("letters", "a"), std::pair("blanks", " "), std::pair("line feeds", "\n"),
        std::pair("Han", "日"), std::pair("emoji", "😀"), std::pair("marks", "\u0301"),
        std::pair("words", "the quick brown fox "), std::pair("angles", "<|im_"),
        std::pair("digits", "7")}) {
    cases.push_back({std::string("chat of ") + name, Chat(Repeat(unit)), ""});
    cases.push_back({std::string("text of ") + name, Text(Repeat(unit)), ""});
  }
  const v1::GenerateRequest tools = WithTools("[" + Repeat("1", ",") + "]");
  const v1::GenerateRequest texts = WithTools("[" + Repeat("\"abc\"", ",") + "]");
  const v1::GenerateRequest escapes = WithTools("[\"" + Repeat("\\\"\\u0001日") + "\"]");
  const std::string use = "{{ messages[0].role }}";
  cases.insert(
      cases.end(),
      {{"messages in messages", ManyMessages(),
        "{% for m in messages %}{% for k in messages %}{% if k.role == m.role %}{% endif %}"
        "{% endfor %}{% endfor %}"},
       {"slices of messages", ManyMessages(),
        "{% for m in messages %}{% set x = messages[loop.index0:] %}{% endfor %}"},
       {"selected messages", ManyMessages(),
        "{% for m in messages %}{{ messages|selectattr('role', 'equalto', 'x')|list|length }}"
        "{% endfor %}"},
       {"tools as JSON, indented", tools, "{{ tools|tojson(indent=4) }}" + use},
       {"deep tools as JSON, indented",
        WithTools("[" + Repeat(std::string(60, '[') + "1" + std::string(60, ']'), ",") + "]"),
        "{{ tools|tojson(indent=4) }}" + use},
       {"tools as JSON, 50 times", escapes,
        "{% for i in range(50) %}{% set x = tools|tojson %}{% endfor %}" + use},
       {"tools as text, 50 times", escapes,
        "{% for i in range(50) %}{% set x = tools|string %}{% endfor %}" + use},
       {"sorted", texts, "{% for i in range(50) %}{% set x = tools|sort %}{% endfor %}" + use},
       {"unique", texts,
        "{% for i in range(50) %}{% set x = tools|unique|list %}{% endfor %}" + use},
       {"joined", texts, "{% for i in range(50) %}{% set x = tools|join(',') %}{% endfor %}" + use},
       {"each tool", tools, "{% for t in tools %}{{ t + 1 }}{% endfor %}" + use},
       {"upper, title, trim", Chat(Repeat("ab ")),
        "{% for i in range(30) %}{% set x = messages[0].content|upper|title|trim %}{% endfor %}"},
       {"replaced", Chat(Repeat("ab")),
        "{% for i in range(30) %}{% set x = messages[0].content|replace('a', 'cc') %}{% endfor %}"},
       {"split", Chat(Repeat("ab ")),
        "{% for i in range(30) %}{% set x = messages[0].content.split(' ') %}{% endfor %}"},
       {"searched", Chat(Repeat("ab")),
        "{% for i in range(1000) %}{% if 'abac' in messages[0].content %}{% endif %}{% endfor %}"},
       {"grown", Chat(Repeat("ab")),
        "{% set ns = namespace(x='') %}{% for i in range(9000) %}"
        "{% set ns.x = ns.x + messages[0].content %}{% endfor %}"},
       {"shown 100 times", Chat(Repeat("ab")),
        "{% for i in range(100) %}{{ messages[0].content }}{% endfor %}"},
       {"characters", Chat(Repeat("ab")), "{% for c in messages[0].content %}{{ c }}{% endfor %}"},
       {"a loop of its own", Chat(Repeat("ab")),
        "{% for i in range(99999999) %}{% endfor %}" + use}});
  return cases;
}

const PromptEncoder& Model() {
  static const auto& model = *new auto(PromptEncoder::Load("configs/demo", std::nullopt));
  CHECK(model.ok()) << model.status();
  return **model;
}

// The time of this thread on a core, whatever else runs on the machine.
double ThreadMs() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

absl::StatusOr<std::vector<TokenId>> TokensOf(const v1::GenerateRequest& request,
                                              const PromptEncoder& encoder, const ModelFacts& facts,
                                              size_t* num_steps) {
  ASSIGN_OR_RETURN(const Generation asked, ToGeneration(request));
  GenerationJob job;
  RequestFuel fuel(NumBytes(asked.prompt), NumMessages(asked.prompt), /*token=*/nullptr);
  auto ids = EncodePrompt(asked.prompt, job, encoder, facts, &fuel);
  *num_steps = fuel.num_burned();
  return ids;
}

void Measure(const Case& test) {
  const PromptEncoder* encoder = &Model();
  std::unique_ptr<PromptEncoder> own;
  if (!test.chat_template.empty()) {
    absl::StatusOr<ChatTemplate> compiled = ChatTemplate::Compile(test.chat_template);
    CHECK(compiled.ok()) << compiled.status();
    own = std::make_unique<PromptEncoder>(Model().tokenizer(),
                                          ChatTemplateSet(*std::move(compiled), std::nullopt));
    encoder = own.get();
  }
  ModelFacts facts;
  facts.vocab_size = Model().tokenizer()->vocab_size();
  facts.max_model_len = 1 << 30;
  double best_ms = 1e9;
  size_t num_steps = 0;
  std::string outcome;
  for (int round = 0; round < 3; ++round) {
    const double start_ms = ThreadMs();
    const auto ids = TokensOf(test.request, *encoder, facts, &num_steps);
    best_ms = std::min(best_ms, ThreadMs() - start_ms);
    outcome = ids.ok() ? std::to_string(ids->size()) + " tokens"
                       : std::string(ids.status().message().substr(0, 60));
  }
  std::printf("%-32s%8.2f%10.1f%12zu  %s\n", test.name.c_str(),
              static_cast<double>(test.request.ByteSizeLong()) / 1e6, best_ms, num_steps,
              outcome.c_str());
  std::fflush(stdout);
}

}  // namespace
}  // namespace quire

int main() {
  std::printf("%-32s%8s%10s%12s  %s\n", "request", "MB", "ms", "steps", "outcome");
  for (const quire::Case& test : quire::Requests()) quire::Measure(test);
  return 0;
}

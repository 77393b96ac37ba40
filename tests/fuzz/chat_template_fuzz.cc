// Chat templates, which come with a model: whatever the source says, compiling and rendering end
// within their limits, and what the user wrote is never taken for the template's. Input: the
// source.
#include <string>

#include "kernels/base/check.h"
#include "nlohmann/json.hpp"
#include "server/text/chat/chat_template.h"
#include "server/text/chat/json_values.h"
#include "tests/engine/checkpoint/test_files.h"
#include "tests/fuzz/target.h"

namespace quire::fuzz {
namespace {

// In every text of the user; no template writes it.
constexpr char kMark[] = "\uE000";

using Json = nlohmann::ordered_json;

jinja::Value ToValue(const Json& json) {
  JsonBudget budget;
  return ParseJsonValue(json.dump(), &budget).value();
}

RenderInput Input() {
  RenderInput input;
  const std::string mark = kMark;
  input.messages = ToValue({
      {{"role", "system"}, {"content", mark + "Be brief" + mark}},
      {{"role", "user"}, {"content", mark + " Hello, <|im_end|> " + mark + "\nworld "}},
      {{"role", "assistant"},
       {"content", mark + "<think>x</think>yes"},
       {"tool_calls",
        {{{"type", "function"},
          {"function", {{"name", mark + "f"}, {"arguments", {{"a", 1}, {"b", mark}}}}}}}}},
      {{"role", "tool"}, {"content", mark + "42"}},
      {{"role", "user"}, {"content", mark + "more"}},
  });
  input.tools = ToValue(Json::array(
      {{{"type", "function"},
        {"function", {{"name", mark + "f"}, {"parameters", {{"type", "object"}, {"x", 1.5}}}}}}}));
  input.kwargs = ToValue({{"enable_thinking", false}, {"n", 3}});
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.max_text_bytes = size_t{1} << 18;
  return input;
}

// The raw strings of the module that holds the templates of the tests.
std::vector<std::string> FamilyTemplates() {
  const std::string module = ReadWholeFile("tests/server/text/chat/family_templates.py");
  constexpr std::string_view kBegin = "= r\"\"\"";
  constexpr std::string_view kEnd = "\"\"\"";
  std::vector<std::string> templates;
  for (size_t at = module.find(kBegin); at != module.npos; at = module.find(kBegin, at)) {
    at += kBegin.size();
    const size_t end = module.find(kEnd, at);
    CHECK_NE(end, module.npos);
    templates.push_back(module.substr(at, end - at));
    at = end;
  }
  CHECK_GE(templates.size(), 5u);
  return templates;
}

// Whether a template could have made the mark by itself.
bool CanSpellMark(std::string_view source) {
  return source.find("\xEE\x80") != source.npos || source.find('\\') != source.npos;
}

}  // namespace

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds = FamilyTemplates();
  seeds.push_back(
      "{% for m in messages %}<|{{ m.role }}|>{{ m.content|trim }}<|end|>{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% endif %}");
  seeds.push_back(
      "{% macro f(x, y=2) %}{{ x * y }}{% endmacro %}{% set ns = namespace(n=0) %}"
      "{% for k, v in messages[0]|dictsort %}{% set ns.n = ns.n + loop.index0 %}{{ f(v) }}"
      "{% endfor %}{{ ns.n }}{{ messages[1:]|map(attribute='content')|join(', ')|upper }}");
  seeds.push_back(
      "{{ messages|tojson(indent=2) }}{{ '%s-%d'|format(messages[1].content, 3) }}"
      "{{ messages[1].content.split(' ')|last }}{{ range(10)|list|sum }}{{ 2 ** 8 // 3 % 5 }}"
      "{{ messages|selectattr('role', 'equalto', 'user')|list|length }}");
  return seeds;
}

std::vector<std::string> Dictionary() {
  return {"{{ ",
          " }}",
          "{% ",
          " %}",
          "{%- ",
          " -%}",
          "{#",
          "#}",
          "{% for i in range(99999) %}",
          "{% endfor %}",
          "{% if ",
          "{% endif %}",
          "{% set x = ",
          "{% macro f(x) %}",
          "{% endmacro %}",
          "f(x)",
          "|tojson",
          "|join",
          "|replace('a', 'bb')",
          "|trim",
          "|upper",
          "|length",
          "|list",
          "|sort",
          "|map('upper')",
          "|select",
          "|groupby('role')",
          "|items",
          ".split(' ')",
          ".strip()",
          "[::-1]",
          "[1:3]",
          " * 99999999",
          " ** 9999",
          " ~ ",
          " % ",
          " in ",
          " is string",
          " not ",
          " and ",
          " if 1 else ",
          "namespace(a=1)",
          "messages",
          "messages[1].content",
          "loop.index",
          "loop(messages)",
          "raise_exception('x')",
          "strftime_now('%Y')",
          "((((((((",
          "{% generation %}",
          "{% break %}",
          "caller()"};
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;  // NOLINT(build/namespaces)
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<ChatTemplate> compiled = ChatTemplate::Compile(source);
  if (!compiled.ok()) {
    CHECK(absl::IsInvalidArgument(compiled.status())) << compiled.status();
    return 0;
  }
  static RenderInput& input = *new RenderInput(fuzz::Input());
  Fuel fuel(20'000);
  input.fuel = &fuel;
  const absl::StatusOr<std::vector<PromptSegment>> segments = compiled->Render(input);
  if (!segments.ok()) {
    CHECK(absl::IsInvalidArgument(segments.status())) << segments.status();
    return 0;
  }
  ++fuzz::num_accepted;
  for (size_t i = 0; i < segments->size(); ++i) {
    const PromptSegment& segment = (*segments)[i];
    CHECK(!segment.text.empty());
    CHECK(i == 0 || segment.from_template != (*segments)[i - 1].from_template);
    if (segment.from_template && !fuzz::CanSpellMark(source)) {
      CHECK_EQ(segment.text.find(fuzz::kMark), segment.text.npos) << "the user's text, as template";
    }
  }
  return 0;
}

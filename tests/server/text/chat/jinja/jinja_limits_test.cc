// Templates come with the model and are not trusted: whatever they say, compiling and rendering
// ends soon, with a clear error, on a small stack.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "server/text/chat/jinja/syntax/parser.h"
#include "tests/server/text/chat/chat_test_helpers.h"
#include "tests/small_stack.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Repeat(std::string_view text, size_t times) {
  std::string result;
  for (size_t i = 0; i < times; ++i) result += text;
  return result;
}

std::string RenderedOnSmallStack(const std::string& source, const RenderInput& input = {}) {
  std::string result;
  RunOnSmallStack([&] { result = Rendered(source, input); });
  return result;
}

// The largest number of levels that `make` gets through the parser with.
size_t DeepestAccepted(const std::function<std::string(size_t)>& make) {
  size_t depth = 1;
  while (depth < 300 && ChatTemplate::Compile(make(depth + 1)).ok()) ++depth;
  return depth;
}

struct NestingCase {
  const char* name;
  std::function<std::string(size_t)> make;
};

class NestingTest : public ::testing::TestWithParam<NestingCase> {};

TEST_P(NestingTest, DeepestAcceptedTemplateRunsOnASmallStack) {
  const size_t deepest = DeepestAccepted(GetParam().make);
  EXPECT_GE(deepest, 30u);
  EXPECT_LE(deepest, 100u);
  const std::string result = RenderedOnSmallStack(GetParam().make(deepest));
  EXPECT_TRUE(!result.starts_with("error") || result.find("deep") != std::string::npos) << result;
}

TEST_P(NestingTest, AbsurdDepthIsRefusedOnASmallStack) {
  const std::string result = RenderedOnSmallStack(GetParam().make(20'000));
  EXPECT_THAT(result, StartsWith("error: chat template, line 1: "));
}

INSTANTIATE_TEST_SUITE_P(
    Constructs, NestingTest,
    ::testing::Values(
        NestingCase{"Parentheses",
                    [](size_t n) { return "{{ " + Repeat("(", n) + "1" + Repeat(")", n) + " }}"; }},
        NestingCase{"Lists",
                    [](size_t n) { return "{{ " + Repeat("[", n) + Repeat("]", n) + " }}"; }},
        NestingCase{
            "Dicts",
            [](size_t n) { return "{{ " + Repeat("{'a':", n) + "1" + Repeat("}", n) + " }}"; }},
        NestingCase{
            "Calls",
            [](size_t n) { return "{{ " + Repeat("dict(a=", n) + "1" + Repeat(")", n) + " }}"; }},
        NestingCase{"Subscripts",
                    [](size_t n) {
                      return "{% set a = [0] %}{{ " + Repeat("a[", n) + "0" + Repeat("]", n) +
                             " }}";
                    }},
        NestingCase{"Nots", [](size_t n) { return "{{ " + Repeat("not ", n) + "1 }}"; }},
        NestingCase{"Signs", [](size_t n) { return "{{ " + Repeat("- ", n) + "1 }}"; }},
        NestingCase{"Sums", [](size_t n) { return "{{ 1" + Repeat(" + 1", n - 1) + " }}"; }},
        NestingCase{"Ors", [](size_t n) { return "{{ 0" + Repeat(" or 0", n - 1) + " }}"; }},
        NestingCase{"Filters", [](size_t n) { return "{{ 1" + Repeat("|string", n - 1) + " }}"; }},
        NestingCase{"FilterArguments",
                    [](size_t n) {
                      return "{{ " + Repeat("1|default(", n) + "1" + Repeat(")", n) + " }}";
                    }},
        NestingCase{"Attributes",
                    [](size_t n) {
                      return "{% set a = namespace() %}{% set a.a = a %}{{ a" +
                             Repeat(".a", n - 1) + " is defined }}";
                    }},
        NestingCase{"Conditionals",
                    [](size_t n) { return "{{ " + Repeat("1 if 0 else ", n) + "2 }}"; }},
        NestingCase{"Ifs",
                    [](size_t n) { return Repeat("{% if 1 %}", n) + Repeat("{% endif %}", n); }},
        NestingCase{
            "Fors",
            [](size_t n) { return Repeat("{% for x in [1] %}", n) + Repeat("{% endfor %}", n); }},
        NestingCase{"Sets",
                    [](size_t n) { return Repeat("{% set x %}", n) + Repeat("{% endset %}", n); }},
        NestingCase{"Targets",
                    [](size_t n) {
                      return "{% set " + Repeat("(", n) + "a" + Repeat(")", n) + " = 1 %}";
                    }}),
    [](const auto& info) { return info.param.name; });

TEST(LimitsTest, SelfRecursionEnds) {
  EXPECT_THAT(RenderedOnSmallStack("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
              HasSubstr("deep"));
  EXPECT_THAT(
      RenderedOnSmallStack(
          "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{{ caller() }}{% endmacro %}"
          "{% call m() %}x{% endcall %}"),
      HasSubstr("deep"));
  EXPECT_THAT(RenderedOnSmallStack("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"),
              HasSubstr("deep"));
}

// Every level of the recursion nests the statements and brackets that the parser lets through.
TEST(LimitsTest, RecursionThroughTallBodiesStaysOnASmallStack) {
  const std::string body = Repeat("{% if (((((1))))) %}{% for x in [1] %}", 12) +
                           "{{ ((((m() ~ 1) ~ 1) ~ 1) ~ 1) }}" +
                           Repeat("{% endfor %}{% endif %}", 12);
  EXPECT_THAT(RenderedOnSmallStack("{% macro m() %}" + body + "{% endmacro %}{{ m() }}"),
              HasSubstr("deep"));
}

TEST(LimitsTest, RecursionThatModelsUseIsAllowed) {
  const std::string source =
      "{% macro show(v) %}{% if v is mapping %}{% for k, x in v.items() %}{% if x %}{{ k }}:{{ "
      "show(x) }}{% endif %}"
      "{% endfor %}{% else %}{{ v }}{% endif %}{% endmacro %}{{ show(v) }}";
  const std::string nested = Repeat("{\"k\":", 12) + "1" + Repeat("}", 12);
  EXPECT_EQ(RenderedOnSmallStack(source, With("{\"v\":" + nested + "}")), Repeat("k:", 12) + "1");
}

TEST(LimitsTest, EndlessWorkRunsOutOfSteps) {
  const char* const sources[] = {
      "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
      "{% for a in range(100000) %}{{ range(100000)|list|length }}{% endfor %}",
      "{% for a in range(100000) %}{% set x = range(99999) == range(99999) %}{% endfor %}",
      "{% for a in range(100000) %}{% set x = 99999 in range(99999) %}{% endfor %}",
      "{% set x = range(50000)|list %}{% for a in x %}{% set y = x|sort %}{% endfor %}",
      "{% set x = 'ab' * 500000 %}{% for a in range(100000) %}{% set y = x|upper %}{% endfor %}",
      "{% set x = range(20000)|list %}{% for a in x %}{% set y = x|unique|list %}{% endfor %}",
  };
  for (const char* source : sources) EXPECT_THAT(Rendered(source), HasSubstr("steps")) << source;
}

TEST(LimitsTest, LargeTextsAreRefusedBeforeTheyAreMade) {
  const char* const sources[] = {
      "{{ 'x' * 10 ** 12 }}",
      "{% set ns = namespace(x='xxxxxxxx') %}{% for a in range(60) %}{% set ns.x = ns.x + ns.x "
      "%}{% endfor %}",
      "{% set ns = namespace(x='xxxxxxxx') %}{% for a in range(60) %}{% set ns.x = "
      "ns.x|replace('x', 'xxxxxxxx') %}{% endfor %}",
      "{% set ns = namespace(x='xxxxxxxx') %}{% for a in range(60) %}{% set ns.x = ns.x.join(['', "
      "'', '']) %}{% endfor %}",
      "{{ ['']|list * 5000000 }}",
      "{{ ('%1000s' * 90000) % (('a',) * 90000) }}",
  };
  for (const char* source : sources) {
    EXPECT_THAT(Rendered(source), ::testing::AnyOf(HasSubstr("steps"), HasSubstr("bytes")))
        << source;
  }
}

TEST(LimitsTest, ValuesThatShareTheirPartsCountInFull) {
  const std::string build =
      "{% set ns = namespace(x=[1]) %}{% for a in range(50) %}{% set ns.x = [ns.x, ns.x] %}{% "
      "endfor %}";
  for (const char* use : {"{{ ns.x }}", "{{ ns.x|tojson }}", "{{ ns.x == [ns.x[0], ns.x[1]] }}",
                          "{{ ns.x|string }}"}) {
    EXPECT_THAT(RenderedOnSmallStack(build + use), HasSubstr("steps")) << use;
  }
}

TEST(LimitsTest, ValuesCannotBeNestedEndlessly) {
  for (const char* wrap : {"[ns.x]", "{'a': ns.x}", "(ns.x,)", "dict(a=ns.x)"}) {
    const std::string source =
        std::string("{% set ns = namespace(x=1) %}{% for a in range(10000) %}{% set ns.x = ") +
        wrap + " %}{% endfor %}{{ ns.x }}";
    EXPECT_THAT(RenderedOnSmallStack(source), HasSubstr("nested")) << wrap;
  }
}

TEST(LimitsTest, LoopsAndMethodsThatHoldEachOtherCannotBeNestedEndlessly) {
  const char* const sources[] = {
      "{% set ns = namespace(p=1) %}{% for i in range(20000) %}{% for x in [ns.p] %}{% set ns.p = "
      "loop %}{% endfor %}{% endfor %}",
      "{% set ns = namespace(p=1) %}{% for i in range(20000) %}{% for x in [ns.p] %}{% set ns.p = "
      "loop.cycle %}{% endfor %}{% endfor %}",
      "{% set ns = namespace(p={}) %}{% for i in range(20000) %}{% set ns.p = {'a': ns.p}.get %}{% "
      "endfor %}",
  };
  for (const char* source : sources)
    EXPECT_THAT(RenderedOnSmallStack(source), HasSubstr("nested")) << source;
}

TEST(LimitsTest, NamespacesMayHoldEachOtherInChainsAndCycles) {
  EXPECT_EQ(RenderedOnSmallStack("{% set ns = namespace(p=none) %}{% for i in range(50000) %}{% "
                                 "set ns.p = namespace(p=ns.p) %}"
                                 "{% endfor %}done"),
            "done");
  EXPECT_EQ(RenderedOnSmallStack(
                "{% set ns = namespace() %}{% set ns.self = [ns] %}{{ ns.self[0].self|length }}"),
            "1");
}

TEST(LimitsTest, MethodsAndLoopsMayOutliveTheirLoop) {
  const std::string begin = "{% set ns = namespace() %}{% for x in [1, 2] if x %}";
  EXPECT_EQ(
      Rendered(begin +
               "{% set ns.l = loop %}{% endfor %}{{ ns.l.index }}{{ ns.l.last }}{{ ns.l.length }}"),
      "2True2");
  EXPECT_EQ(Rendered(begin + "{% set ns.c = loop.cycle %}{% endfor %}{{ ns.c('a', 'b') }}"), "b");
  EXPECT_THAT(
      Rendered(begin +
               "{% macro m() %}{{ x }}{% endmacro %}{% set ns.m = m %}{% endfor %}{{ ns.m() }}"),
      HasSubstr("had ended"));
}

TEST(LimitsTest, RangeHasAMaximum) {
  EXPECT_THAT(Rendered("{{ range(10 ** 9) }}"), HasSubstr("at most 100000"));
  EXPECT_EQ(Rendered("{{ range(100000)|length }}"), "100000");
  EXPECT_THAT(Rendered("{% for i in range(-(10 ** 30), 10 ** 30) %}{% endfor %}"),
              HasSubstr("at most 100000"));
}

TEST(LimitsTest, IntegersThatOverflowAreAnError) {
  for (const char* source : {"{{ 10 ** 100 }}", "{{ 2 ** 126 * 4 }}", "{{ 2 ** 126 + 2 ** 126 }}",
                             "{{ -(2 ** 126) * 2 - 1 }}", "{{ 1e300|int }}"}) {
    EXPECT_THAT(Rendered(source), HasSubstr("too large")) << source;
  }
  EXPECT_EQ(Rendered("{{ 'abc'[-(2 ** 126):2 ** 126:2 ** 126] }}"), "a");
}

TEST(LimitsTest, SourceSizeIsLimited) {
  EXPECT_EQ(Rendered(std::string(ChatTemplate::kMaxSourceBytes, 'x')).size(),
            ChatTemplate::kMaxSourceBytes);
  EXPECT_THAT(Rendered(std::string(ChatTemplate::kMaxSourceBytes + 1, 'x')),
              HasSubstr("over the limit"));
}

TEST(LimitsTest, RequestJsonNestingIsLimited) {
  const auto nested = [](size_t depth) {
    return "{\"v\":" + Repeat("[", depth) + Repeat("]", depth) + "}";
  };
  EXPECT_EQ(RenderedOnSmallStack("{{ v|tojson == v|string }}", With(nested(jinja::kMaxValueDepth))),
            "True");
}

TEST(LimitsTest, NamesOfOneCallAreLimited) {
  const auto called_with = [](size_t num_names) {
    std::string names;
    for (size_t i = 0; i < num_names; ++i) {
      names += (i == 0 ? "\"a" : ", \"a") + std::to_string(i) + "\": 1";
    }
    return Rendered("{% macro m() %}{{ kwargs|length }}{% endmacro %}{{ m(**names) }}",
                    With("{\"names\": {" + names + "}}"));
  };
  EXPECT_EQ(called_with(255), "255");
  EXPECT_THAT(called_with(256), HasSubstr("more than 255 after **"));
  EXPECT_THAT(
      Rendered("{% macro m() %}{% endmacro %}{% for i in range(100000) %}"
               "{% if m is callable and range(*[1, 100000]) %}{{ [].index(*range(100000)) }}"
               "{% endif %}{% endfor %}"),
      StartsWith("error: "));
}

TEST(LimitsTest, LimitsOfTheCallerHold) {
  RenderInput input;
  input.max_text_bytes = 10;
  EXPECT_EQ(Rendered("0123456789", input), "0123456789");
  EXPECT_THAT(Rendered("0123456789a", input), HasSubstr("more than 10 bytes"));
  Fuel fuel(3);
  input.fuel = &fuel;
  EXPECT_THAT(Rendered("{{ 1 }}{{ 2 }}{{ 3 }}", input), HasSubstr("more than 3 steps"));
}

TEST(LimitsTest, ACancelledRenderEndsSoon) {
  std::atomic<bool> cancelled = true;
  Fuel fuel(Fuel::kUnlimited, &cancelled);
  RenderInput input;
  input.fuel = &fuel;
  const auto result = RenderSegments(
      "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}"
      "{% endfor %}",
      input);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled) << result.status();
  EXPECT_LT(fuel.num_burned(), 200'000u) << "one list of 100,000 numbers and what is around it";
}

}  // namespace
}  // namespace quire

// Statements: loops, conditions, assignment, scopes, macros. differential_test.py compares many
// more with jinja2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/text/chat/chat_test_helpers.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

TEST(ForTest, LoopVariable) {
  EXPECT_EQ(Rendered("{% for x in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ "
                     "loop.revindex0 }}{{ loop.length }}"
                     "{{ loop.first }}{{ loop.last }}{{ loop.previtem }}{{ loop.nextitem }}{{ "
                     "loop.cycle('p', 'q') }} {% endfor %}"),
            "10323TrueFalsebp 21213FalseFalseacq 32103FalseTruebp ");
}

TEST(ForTest, FilterElseAndUnpacking) {
  EXPECT_EQ(Rendered("{% for x in [1, 2, 3] if x is odd %}{{ loop.index }}:{{ x }}{{ ',' if not "
                     "loop.last }}{% endfor %}"),
            "1:1,2:3");
  EXPECT_EQ(Rendered("{% for x in [] %}x{% else %}none{% endfor %}"), "none");
  EXPECT_EQ(
      Rendered("{% for k, (a, b) in {'k': [1, 2]}.items() %}{{ k }}{{ a }}{{ b }}{% endfor %}"),
      "k12");
  EXPECT_THAT(Rendered("{% for a, b in [[1]] %}{% endfor %}"),
              HasSubstr("cannot unpack 1 values into 2 names"));
}

TEST(ForTest, BreakAndContinue) {
  EXPECT_EQ(Rendered("{% for x in [1, 2, 3, 4] %}{% if x == 2 %}{% continue %}{% endif %}{% if x "
                     "== 4 %}{% break %}{% endif %}{{ x }}{% endfor %}"),
            "13");
  EXPECT_THAT(Rendered("{% break %}"), HasSubstr("need a loop"));
}

TEST(ForTest, Recursive) {
  EXPECT_EQ(
      Rendered("{% for x in t recursive %}{{ loop.depth }}{{ x.v }}[{{ loop(x.c) }}]{% endfor %}",
               With(R"({"t": [{"v": "a", "c": [{"v": "b", "c": []}]}]})")),
      "1a[2b[]]");
}

TEST(IfTest, TakesTheFirstTrueBranch) {
  const char* source = "{% if v == 1 %}a{% elif v == 2 %}b{% else %}c{% endif %}";
  EXPECT_EQ(Rendered(source, With(R"({"v": 1})")), "a");
  EXPECT_EQ(Rendered(source, With(R"({"v": 2})")), "b");
  EXPECT_EQ(Rendered(source, With(R"({"v": 3})")), "c");
}

TEST(IfTest, UnknownFiltersInsideAreErrorsOnlyWhenUsed) {
  EXPECT_EQ(Rendered("{% if false %}{{ 1|nosuch }}{% endif %}{{ (1|nosuch) if false else 'ok' }}"),
            "ok");
  EXPECT_EQ(Rendered("{% if true %}{{ 1|nosuch }}{% endif %}"),
            "error: chat template, line 1: there is no filter 'nosuch'");
  EXPECT_EQ(Rendered("{% if false %}{% endif %}{{ 1|nosuch }}"),
            "error: chat template, line 1: there is no filter 'nosuch'");
}

TEST(SetTest, ScopesAreThoseOfJinja) {
  EXPECT_EQ(
      Rendered("{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}"),
      "221");
  EXPECT_EQ(Rendered("{% if true %}{% set x = 1 %}{% endif %}{{ x }}"), "1");
  EXPECT_EQ(
      Rendered(
          "{% macro m() %}{{ x }}{% set x = 2 %}{% endmacro %}{% set x = 1 %}{{ m() }}{{ x }}"),
      "11");
  EXPECT_EQ(Rendered("{% with x = 1 %}{{ x }}{% endwith %}{{ x is defined }}"), "1False");
}

TEST(SetTest, NamespacesTuplesAndBlocks) {
  EXPECT_EQ(Rendered("{% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i "
                     "%}{% endfor %}{{ ns.n }}"),
            "3");
  EXPECT_EQ(Rendered("{% set a, b = 1, 2 %}{{ b }}{{ a }}"), "21");
  EXPECT_EQ(Rendered("{% set x | upper %}a{{ 1 }}{% endset %}{{ x }}"), "A1");
}

TEST(MacroTest, Parameters) {
  const std::string macro = "{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}";
  EXPECT_EQ(Rendered(macro + "{{ m(1) }},{{ m(1, 3) }},{{ m(b=1, a=0) }},{{ m() }}"), "12,13,01,2");
  EXPECT_THAT(Rendered(macro + "{{ m(1, 2, 3) }}"),
              HasSubstr("macro 'm' takes at most 2 arguments"));
  EXPECT_THAT(Rendered(macro + "{{ m(c=3) }}"), HasSubstr("macro 'm' takes no argument 'c'"));
  EXPECT_THAT(Rendered(macro + "{{ m(1, a=3) }}"), HasSubstr("macro 'm' got 'a' twice"));
  EXPECT_EQ(Rendered("{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, k=2) }}"),
            "(1,){'k': 2}");
}

TEST(MacroTest, CallBlocks) {
  EXPECT_EQ(Rendered("{% macro m(x) %}<{{ caller(x) }}>{% endmacro %}{% call(y) m(5) %}{{ y + 1 "
                     "}}{% endcall %}"),
            "<6>");
  EXPECT_THAT(Rendered("{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}"),
              HasSubstr("takes no argument 'caller'"));
  EXPECT_THAT(Rendered("{% call 5 %}{% endcall %}"), HasSubstr("expected a call of a macro"));
}

TEST(BlockTest, FilterGenerationAndRaw) {
  EXPECT_EQ(Rendered("{% filter upper|replace('A', 'x') %}a{{ 'b' }}{% endfilter %}"), "xB");
  EXPECT_EQ(Rendered("{% generation %}a{% endgeneration %}"), "a");
  EXPECT_EQ(Rendered("{% raw %}{{ a }}{% b %}{# c #}{% endraw %}"), "{{ a }}{% b %}{# c #}");
}

TEST(BlockTest, UnsupportedStatementsAreNamed) {
  EXPECT_THAT(Rendered("{% include 'x' %}"), HasSubstr("expected a statement (if, for,"));
  EXPECT_THAT(Rendered("{% extends 'x' %}"), HasSubstr("got 'extends'"));
}

}  // namespace
}  // namespace quire

// Expressions: literals, operators, access, calls, printing. differential_test.py compares many
// more with jinja2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/text/chat/chat_test_helpers.h"

namespace quire {
namespace {

using ::testing::StartsWith;

std::string Evaluated(const std::string& expression) {
  return Rendered("{{ " + expression + " }}",
                  With(R"({"t": "añ🚀", "l": [3, 1, 2], "d": {"a": 1, "items": 2}, "n": null})"));
}

struct ExpressionCase {
  const char* expression;
  const char* expected;
};

class ExpressionTest : public ::testing::TestWithParam<ExpressionCase> {};

TEST_P(ExpressionTest, Value) { EXPECT_EQ(Evaluated(GetParam().expression), GetParam().expected); }

INSTANTIATE_TEST_SUITE_P(
    Literals, ExpressionTest,
    ::testing::Values(ExpressionCase{"1_000", "1000"}, ExpressionCase{"1e3", "1000.0"},
                      ExpressionCase{"1.5e-7", "1.5e-07"}, ExpressionCase{"1e16", "1e+16"},
                      ExpressionCase{"true", "True"}, ExpressionCase{"None", "None"},
                      ExpressionCase{R"('a\t\x41\u00e9\'\q')", "a\tAé'\\q"},
                      ExpressionCase{"'a' \"b\"", "ab"},
                      ExpressionCase{"[1, 'a', (2,), {'k': none}]", "[1, 'a', (2,), {'k': None}]"},
                      ExpressionCase{R"(["it's", '"', 'a\n'])", R"(["it's", '"', 'a\n'])"}));

INSTANTIATE_TEST_SUITE_P(
    Operators, ExpressionTest,
    ::testing::Values(
        ExpressionCase{"7 // 2", "3"}, ExpressionCase{"-7 // 2", "-4"},
        ExpressionCase{"-7 % 3", "2"}, ExpressionCase{"7 / 2", "3.5"},
        ExpressionCase{"2 ** 3 ** 2", "64"}, ExpressionCase{"-2 ** 2", "4"},
        ExpressionCase{"1 + 2 * 3", "7"},
        ExpressionCase{"1 ~ 2 + 3", "error: chat template, line 1: cannot compute str + int"},
        ExpressionCase{"1 < 2 < 3", "True"}, ExpressionCase{"1 < 3 < 2", "False"},
        ExpressionCase{"1 == 1.0", "True"}, ExpressionCase{"'b' in 'abc' and 2 not in [1]", "True"},
        ExpressionCase{"(1, ('a',)) in {'a': 1}", "False"},
        ExpressionCase{"'x' % [1, 2] ~ 'y' % missing", "xy"}, ExpressionCase{"'' or 'x'", "x"},
        ExpressionCase{"0 and x.y", "0"}, ExpressionCase{"not n", "True"},
        ExpressionCase{"'a' if n else 'b'", "b"}, ExpressionCase{"'a' if n", ""},
        ExpressionCase{"'ab' * 2", "abab"}, ExpressionCase{"[1] + [2]", "[1, 2]"}));

INSTANTIATE_TEST_SUITE_P(
    Access, ExpressionTest,
    ::testing::Values(ExpressionCase{"t[1]", "ñ"}, ExpressionCase{"t[-1]", "🚀"},
                      ExpressionCase{"t[::-1]", "🚀ña"}, ExpressionCase{"t[1:]", "ñ🚀"},
                      ExpressionCase{"l[::2]", "[3, 2]"}, ExpressionCase{"l[5]", ""},
                      ExpressionCase{"l.0", "3"}, ExpressionCase{"d.a", "1"},
                      ExpressionCase{"d['items']", "2"},
                      ExpressionCase{"d.items()|list", "[('a', 1), ('items', 2)]"},
                      ExpressionCase{"d.get('x', 5)", "5"}, ExpressionCase{"n.x", ""},
                      ExpressionCase{"missing", ""},
                      ExpressionCase{"missing is defined", "False"}));

INSTANTIATE_TEST_SUITE_P(
    Methods, ExpressionTest,
    ::testing::Values(
        ExpressionCase{"'a,b,c'.split(',', 1)", "['a', 'b,c']"},
        ExpressionCase{"'a,b,c'.rsplit(',', maxsplit=1)", "['a,b', 'c']"},
        ExpressionCase{"' x '.strip()", "x"}, ExpressionCase{"'xax'.lstrip('x')", "ax"},
        ExpressionCase{"'ab'.upper()", "AB"}, ExpressionCase{"'straße'.upper()", "STRASSE"},
        ExpressionCase{"'aa'.replace('a', 'b', 1)", "ba"}, ExpressionCase{"t.find('🚀')", "2"},
        ExpressionCase{"'a'.startswith(('x', 'a'))", "True"},
        ExpressionCase{"'{1}{0}{k}'.format(1, 2, k=3)", "213"},
        ExpressionCase{"'%05.1f|%-3s|%s' % (2.25, 'a', n)", "002.2|a  |None"},
        ExpressionCase{"l.index(2) ~ l.count(1)", "21"},
        ExpressionCase{"'a\\r\\nb\\n'.splitlines()", "['a', 'b']"}));

// The sandbox: nothing changes a value, nothing leads to Python's insides.
TEST(SandboxTest, ValuesCannotBeChanged) {
  for (const char* expression :
       {"l.append(1)", "l.pop()", "l.sort()", "d.update({})", "d.pop('a')", "d.clear()"}) {
    EXPECT_THAT(Evaluated(expression), ::testing::HasSubstr("templates may not change values"))
        << expression;
  }
  EXPECT_THAT(Rendered("{% set d = {} %}{% set d.a = 1 %}"),
              ::testing::HasSubstr("is not a namespace"));
  EXPECT_EQ(Evaluated("l.__class__ ~ t.__init__ ~ d.__globals__"), "");
}

TEST(UndefinedTest, UseIsAnErrorThatNamesIt) {
  EXPECT_EQ(Evaluated("missing.x"), "error: chat template, line 1: 'missing' is undefined");
  EXPECT_EQ(Evaluated("missing + 1"), "error: chat template, line 1: 'missing' is undefined");
  EXPECT_EQ(Evaluated("missing()"), "error: chat template, line 1: 'missing' is undefined");
  EXPECT_EQ(Evaluated("d.zz.y"), "error: chat template, line 1: a dict has no attribute 'zz'");
  EXPECT_EQ(Evaluated("missing ~ (missing|length) ~ (missing|list) ~ (missing == other)"),
            "0[]True");
}

TEST(SyntaxTest, ErrorsSayWhatWasExpected) {
  const ExpressionCase cases[] = {
      {"1 +", "expected an expression, got '}}'"},
      {"(1", "unexpected '}'"},
      {"a b", "expected '}}', got 'b'"},
      {"'a", "a string has no end"},
      {"a ? b", "unexpected character '?'"},
      {"f(*a, b)", "expected a keyword argument after a keyword argument or *"},
      {"f(*a, *b)", "two * arguments"},
      {"f(**a, b=1)", "an argument after **"},
      {"f(a=1, 2)", "expected a keyword argument after a keyword argument or *, got '2'"},
      {"x|nosuch", "there is no filter 'nosuch'"},
      {"x is nosuch", "there is no test 'nosuch'"},
      {"'\\xZZ'", "an escape in a string needs hex digits"}};
  for (const auto& [expression, expected] : cases) {
    EXPECT_THAT(Evaluated(expression),
                StartsWith(std::string("error: chat template, line 1: ") + expected))
        << expression;
  }
}

}  // namespace
}  // namespace quire

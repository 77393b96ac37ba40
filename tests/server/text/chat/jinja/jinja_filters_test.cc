// Filters, tests and tojson. differential_test.py compares many more uses with jinja2.
#include <gtest/gtest.h>

#include <string>

#include "tests/server/text/chat/chat_test_helpers.h"

namespace quire {
namespace {

struct FilterCase {
  const char* expression;
  const char* expected;
};

class FilterTest : public ::testing::TestWithParam<FilterCase> {};

TEST_P(FilterTest, Result) {
  EXPECT_EQ(
      Rendered(
          std::string("{{ ") + GetParam().expression + " }}",
          With(
              R"({"people": [{"n": "Zoe", "a": {"c": 1}}, {"n": "adam"}], "d": {"b": 1, "A": [2.5, null]}})")),
      GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    Text, FilterTest,
    ::testing::Values(
        FilterCase{"'  a '|trim", "a"}, FilterCase{"'ab'|upper|lower|title|capitalize", "Ab"},
        FilterCase{"'aXb'|replace('X', '-')", "a-b"}, FilterCase{"'a\\nb'|indent(2)", "a\n  b"},
        FilterCase{"'<a&\\'>'|e", "&lt;a&amp;&#39;&gt;"}, FilterCase{"5|string|safe", "5"},
        FilterCase{"'%s-%s'|format(1, 'x')", "1-x"}, FilterCase{"'añ'|center(5)", "  añ "},
        FilterCase{"'abc'|center(6)", " abc  "}, FilterCase{"'abc'|center(2)", "abc"},
        FilterCase{"'añ'|length", "2"}, FilterCase{"'abc'|reverse", "cba"}));

INSTANTIATE_TEST_SUITE_P(Numbers, FilterTest,
                         ::testing::Values(FilterCase{"'42.9'|int", "42"},
                                           FilterCase{"'x'|int(7)", "7"},
                                           FilterCase{"'ff'|int(base=16)", "255"},
                                           FilterCase{"'1.5'|float", "1.5"},
                                           FilterCase{"-3|abs", "3"}, FilterCase{"(-3)|abs", "3"},
                                           FilterCase{"2.675|round(2)", "2.67"},
                                           FilterCase{"2.1|round(method='ceil')", "3.0"}));

INSTANTIATE_TEST_SUITE_P(
    Sequences, FilterTest,
    ::testing::Values(
        FilterCase{"people|map(attribute='n')|join(',')", "Zoe,adam"},
        FilterCase{"people|map(attribute='a.c', default=0)|list", "[1, 0]"},
        FilterCase{"['a']|map('upper')|first", "A"},
        FilterCase{"people|selectattr('a', 'defined')|list|length", "1"},
        FilterCase{"people|rejectattr('n', 'equalto', 'Zoe')|map(attribute='n')|first", "adam"},
        FilterCase{"[1, 2, 3]|select('odd')|list", "[1, 3]"},
        FilterCase{"[1, 2, 3]|reject('gt', 1)|list", "[1]"},
        FilterCase{"['b', 'A', 'c']|sort", "['A', 'b', 'c']"},
        FilterCase{"people|sort(attribute='n')|map(attribute='n')|list", "['adam', 'Zoe']"},
        FilterCase{"d|dictsort", "[('A', [2.5, None]), ('b', 1)]"},
        FilterCase{"d|items|list", "[('b', 1), ('A', [2.5, None])]"},
        FilterCase{"[3, 1]|min ~ [3, 1]|max ~ [3, 1]|sum", "134"},
        FilterCase{"['a', 'A', 'b']|unique|list", "['a', 'b']"},
        FilterCase{"[1, 2, 3]|batch(2, 0)|list", "[[1, 2], [3, 0]]"},
        FilterCase{"[1, 2]|last", "2"},
        FilterCase{"missing|default('x') ~ ''|d('y', true)", "xy"}));

INSTANTIATE_TEST_SUITE_P(
    Json, FilterTest,
    ::testing::Values(FilterCase{"d|tojson", R"({"b": 1, "A": [2.5, null]})"},
                      FilterCase{"d|tojson(sort_keys=true)", R"({"A": [2.5, null], "b": 1})"},
                      FilterCase{"d|tojson(indent=1)",
                                 "{\n \"b\": 1,\n \"A\": [\n  2.5,\n  null\n ]\n}"},
                      FilterCase{"d|tojson(separators=(',', ':'))", R"({"b":1,"A":[2.5,null]})"},
                      FilterCase{"[[], {}]|tojson(indent=2)", "[\n  [],\n  {}\n]"},
                      FilterCase{R"('<é>"\\\x01\x7f\n'|tojson)", R"("<é>\"\\\u0001)"
                                                                 "\x7f"
                                                                 R"(\n")"},
                      FilterCase{"'é🚀'|tojson(ensure_ascii=true)", R"("\u00e9\ud83d\ude80")"},
                      FilterCase{"1e22|tojson", "1e+22"},
                      FilterCase{"{1: true, none: 2}|tojson", R"({"1": true, "null": 2})"},
                      FilterCase{"missing|tojson",
                                 "error: chat template, line 1: filter 'tojson': a value of type "
                                 "undefined cannot be written as JSON"}));

INSTANTIATE_TEST_SUITE_P(
    Tests, FilterTest,
    ::testing::Values(
        FilterCase{"1 is odd and 2 is even and 6 is divisibleby 3", "True"},
        FilterCase{"true is number and true is not integer", "True"},
        FilterCase{"'a' is string and 'a' is sequence and 'a' is not mapping", "True"},
        FilterCase{"none is none and missing is undefined", "True"},
        FilterCase{"1 is eq 1 and 1 is ne 2 and 1 is lt 2 and 2 is ge 2", "True"},
        FilterCase{"'a' is in ['a'] and 'A' is upper", "True"},
        FilterCase{"range is callable and d.items is callable and d is not callable", "True"}));

// A generator is always true and yields its items once, as in Python.
TEST(GeneratorTest, BehavesAsInPython) {
  EXPECT_EQ(Rendered("{% if [1]|select('gt', 5) %}yes{% endif %}"), "yes");
  EXPECT_EQ(Rendered("{% set g = [1]|select %}{{ g|list }}{{ g|list }}"), "[1][]");
  EXPECT_EQ(Rendered("{{ [1]|select|length }}"),
            "error: chat template, line 1: filter 'length': a generator has no length");
}

}  // namespace
}  // namespace quire

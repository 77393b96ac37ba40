// White space around tags: trim_blocks and lstrip_blocks are on, '-' and '+' override them.
#include <gtest/gtest.h>

#include "tests/server/text/chat/chat_test_helpers.h"

namespace quire {
namespace {

struct WhitespaceCase {
  const char* source;
  const char* expected;
};

class WhitespaceTest : public ::testing::TestWithParam<WhitespaceCase> {};

TEST_P(WhitespaceTest, Text) { EXPECT_EQ(Rendered(GetParam().source), GetParam().expected); }

INSTANTIATE_TEST_SUITE_P(
    Tags, WhitespaceTest,
    ::testing::Values(WhitespaceCase{"a\n  {% if 1 %}\n  b\n  {% endif %}\n  c\n", "a\n  b\n  c"},
                      WhitespaceCase{"a {% if 1 %} b {% endif %} c", "a  b  c"},
                      WhitespaceCase{"a \n {%- if 1 -%} \n b {%- endif %}\nc", "abc"},
                      WhitespaceCase{"  {%+ if 1 %}b{% endif +%}\nc", "  b\nc"},
                      WhitespaceCase{"  {{ 1 }}\nx", "  1\nx"},
                      WhitespaceCase{"a \n{{- 1 -}}\n b", "a1b"},
                      WhitespaceCase{"  {% set a = 1 %}  {% set b = 2 %}x", "  x"}));

INSTANTIATE_TEST_SUITE_P(
    CommentsAndRaw, WhitespaceTest,
    ::testing::Values(WhitespaceCase{"a\n  {# c #}\n b", "a\n b"},
                      WhitespaceCase{"a\n {#- c -#}\n b", "ab"},
                      WhitespaceCase{"a\n {#+ c +#}\nb", "a\n \nb"},
                      WhitespaceCase{"{% raw %}\n a {% endraw %}\nb", "\n a b"},
                      WhitespaceCase{"{%- raw -%}\n a {%- endraw -%}\nb", "ab"}));

INSTANTIATE_TEST_SUITE_P(
    LineBreaks, WhitespaceTest,
    ::testing::Values(WhitespaceCase{"a\n", "a"}, WhitespaceCase{"a\n\n", "a\n"},
                      WhitespaceCase{"a\r\nb\rc\r\n", "a\nb\nc"},
                      WhitespaceCase{"{% if 1 %}\r\na{% endif %}", "a"},
                      WhitespaceCase{"\xC2\xA0{%- set a = 1 -%}\xE3\x80\x80x", "x"}));

}  // namespace
}  // namespace quire

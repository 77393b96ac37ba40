// User text stays user text through everything that a template can do with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "server/text/chat/jinja/values/text.h"
#include "tests/server/text/chat/chat_test_helpers.h"

namespace quire {
namespace {

using jinja::Origin;
using jinja::Text;
using ::testing::ElementsAre;

constexpr std::string_view kSpecial = "<|im_start|>";

RenderInput WithUser(std::string_view content) {
  using Json = nlohmann::ordered_json;
  const std::string text(content);
  const Json messages = Json::array({{{"role", "user"}, {"content", text}}});
  const Json kwargs = {{"u", text}, {"list", {text, "b"}}, {"names", {{text, "v"}}}};
  RenderInput input;
  input.messages = FromJson(messages.dump());
  input.bos_token = "<s>";
  input.kwargs = FromJson(kwargs.dump());
  return input;
}

// All text of one origin, joined.
std::string OfOrigin(const std::vector<PromptSegment>& segments, bool from_template) {
  std::string text;
  for (const PromptSegment& segment : segments) {
    if (segment.from_template == from_template) text += segment.text;
  }
  return text;
}

TEST(TextTest, SliceAndAppendKeepTheOriginOfEachByte) {
  Text text("ab", Origin::kTemplate);
  text.Append("cd", Origin::kUser);
  text.Append("ef", Origin::kTemplate);
  Text slice = text.Slice(1, 5);
  EXPECT_EQ(slice.bytes(), "bcde");
  ASSERT_EQ(slice.runs().size(), 3u);
  EXPECT_EQ(slice.OriginAt(0), Origin::kTemplate);
  EXPECT_EQ(slice.OriginAt(1), Origin::kUser);
  EXPECT_EQ(slice.OriginAt(2), Origin::kUser);
  EXPECT_EQ(slice.OriginAt(3), Origin::kTemplate);
  slice.Append(text, 4, 100);
  EXPECT_EQ(slice.bytes(), "bcdeef");
  EXPECT_EQ(slice.runs().size(), 3u);
  EXPECT_TRUE(text.Slice(3, 3).runs().empty());
  EXPECT_TRUE(text.Slice(9, 12).empty());
}

TEST(OriginTest, SegmentsAlternateAndSpecialTokensOfTheTemplateAreMarked) {
  const auto segments = RenderSegments(
      "{{ bos_token }}<|im_start|>{{ messages[0].role ~ '\n' + messages[0]['content'] }}<|im_end|>",
      WithUser("hi <|im_end|>"));
  ASSERT_TRUE(segments.ok());
  EXPECT_THAT(*segments,
              ElementsAre(PromptSegment{"<s><|im_start|>", true}, PromptSegment{"user", false},
                          PromptSegment{"\n", true}, PromptSegment{"hi <|im_end|>", false},
                          PromptSegment{"<|im_end|>", true}));
}

// Each expression yields the user's text, perhaps changed, and no text of the template.
TEST(OriginTest, UserTextStaysUserTextThroughOperations) {
  const char* const expressions[] = {
      "u",
      "u|trim",
      "u.strip()",
      "u|upper",
      "u.lower()",
      "u|title",
      "u.title()",
      "u|capitalize",
      "u.swapcase()",
      "u|string",
      "u|safe",
      "u|e",
      "u|tojson",
      "u[0:]",
      "u[::-1][::-1]",
      "u[2:]",
      "u|list|join",
      "u|reverse|reverse",
      "u ~ u",
      "u + u",
      "u * 2",
      "u|default('x')",
      "u or 'x'",
      "missing|default(u)",
      "u if true else 'x'",
      "[u]|first",
      "{'a': u}.a",
      "{'a': u}['a']",
      "{'a': u}|items|map('last')|first",
      "[u, u]|map('upper')|join",
      "[u]|string",
      "(u,)|tojson",
      "{'k': u}|string",
      "u.split('|')|join",
      "u.split()|first",
      "u.splitlines()|first",
      "u.partition('zzz')|first",
      "''.join([u])",
      "u|indent",
      "u|indent(2, true)",
      "u.format()",
      "'{}'.format(u)",
      "'%s' % u",
      "'%s'|format(u)",
      "u|replace('zzz', 'y')",
      "'A'|replace('A', u)",
      "'A'.replace('A', u)",
      "messages[0].content",
      "messages|map(attribute='content')|join",
      "messages|selectattr('role', 'eq', 'user')|map(attribute='content')|first",
      "list|join(u)",
      "names|first",
      "names.keys()|first",
      "names|dictsort|first|first",
      "names|tojson",
      "list|sort|first",
      "list|max",
      "list|min",
      "list|unique|first",
      "list|batch(1)|first|first",
      "u|attr('upper')()",
      "namespace(x=u).x",
      "dict(x=u).x",
      "dict(**names)|first",
      "'%s%s'|format(*[u, u])",
      "u.removeprefix('z')",
      "u.rsplit('zz')|last",
      "messages|tojson"};
  for (const char* expression : expressions) {
    const auto segments =
        RenderSegments(std::string("{{ ") + expression + " }}", WithUser(kSpecial));
    ASSERT_TRUE(segments.ok()) << expression << ": " << segments.status();
    EXPECT_EQ(OfOrigin(*segments, true), "") << expression;
    EXPECT_NE(OfOrigin(*segments, false), "") << expression;
  }
}

TEST(OriginTest, UserTextStaysUserTextThroughStatements) {
  const char* const sources[] = {
      "{% set x = u %}{{ x }}",
      "{% set x %}{{ u }}{% endset %}{{ x }}",
      "{% set x | trim %}{{ u }}{% endset %}{{ x }}",
      "{% filter upper %}{{ u }}{% endfilter %}",
      "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(u) }}",
      "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{{ u }}{% endcall %}",
      "{% set ns = namespace(x='') %}{% for c in u %}{% set ns.x = ns.x + c %}{% endfor %}{{ ns.x "
      "}}",
      "{% for m in messages recursive %}{{ m.content }}{% endfor %}",
      "{% generation %}{{ u }}{% endgeneration %}",
      "{% with x = u %}{{ x }}{% endwith %}",
  };
  for (const char* source : sources) {
    const auto segments = RenderSegments(source, WithUser(kSpecial));
    ASSERT_TRUE(segments.ok()) << source << ": " << segments.status();
    EXPECT_EQ(OfOrigin(*segments, true), "") << source;
    EXPECT_EQ(OfOrigin(*segments, false).size(), kSpecial.size()) << source;
  }
}

// Text that user and template make together is no special token of either.
TEST(OriginTest, MixedTextKeepsBothMarks) {
  const auto expect = [](const char* source, std::vector<PromptSegment> expected) {
    const auto segments = RenderSegments(source, WithUser("im_start"));
    ASSERT_TRUE(segments.ok()) << source;
    EXPECT_EQ(*segments, expected) << source;
  };
  const std::vector<PromptSegment> wrapped = {{"<|", true}, {"im_start", false}, {"|>", true}};
  expect("<|{{ u }}|>", wrapped);
  expect("{{ '<|' + u + '|>' }}", wrapped);
  expect("{{ '<|' ~ u ~ '|>' }}", wrapped);
  expect("{{ ['<|', u, '|>']|join }}", wrapped);
  expect("{{ '<|%s|>' % u }}", wrapped);
  expect("{{ '<|{}|>'.format(u) }}", wrapped);
  expect("{{ '<|X|>'|replace('X', u) }}", wrapped);
  expect("{{ ('<|' ~ u ~ '|>')[0:] }}", wrapped);
  expect("{{ ('  <|' ~ u ~ '|> ')|trim }}", wrapped);
  expect("{{ ('<|' ~ u ~ '|>')|upper }}", {{"<|", true}, {"IM_START", false}, {"|>", true}});
  expect("{{ ('<|' ~ u ~ '|>')[::-1] }}", {{">|", true}, {"trats_mi", false}, {"|<", true}});
  expect("{{ ('a,' ~ u ~ ',b').split(',')[1] }}", {{"im_start", false}});
  expect("{{ u.join(['<', '>']) }}", {{"<", true}, {"im_start", false}, {">", true}});
  expect("{{ ('a' ~ u ~ 'b')|tojson }}", {{"\"aim_startb\"", false}});
}

TEST(OriginTest, WhatIsComputedIsUserText) {
  for (const char* source : {"{{ 1 + 1 }}", "{{ [1, '<|x|>'] }}", "{{ '<|x|>'|tojson }}",
                             "{{ true }}", "{{ strftime_now('%Y') }}"}) {
    const auto segments = RenderSegments(source);
    ASSERT_TRUE(segments.ok());
    EXPECT_EQ(OfOrigin(*segments, true), "") << source;
  }
}

TEST(OriginTest, LiteralsOfTheTemplateStayTemplateText) {
  for (const char* source :
       {"{{ ['<|x|>'][0] }}", "{{ {'a': '<|x|>'}['a'] }}", "{% set t = '<|x|>' %}{{ t|trim }}",
        "{% macro m() %}<|x|>{% endmacro %}{{ m() }}", "{{ missing|default('<|x|>') }}"}) {
    EXPECT_THAT(*RenderSegments(source), ElementsAre(PromptSegment{"<|x|>", true})) << source;
  }
}

}  // namespace
}  // namespace quire

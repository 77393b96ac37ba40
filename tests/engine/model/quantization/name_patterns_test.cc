#include "engine/model/quantization/name_patterns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace quire {
namespace {

using testing::HasSubstr;

bool Matches(absl::string_view text, NameRule rule, absl::string_view name) {
  const auto pattern = NamePattern::Create(text, rule);
  EXPECT_TRUE(pattern.ok()) << pattern.status();
  if (!pattern.ok()) return false;
  const auto matches = pattern->Matches(name);
  EXPECT_TRUE(matches.ok()) << matches.status();
  return matches.value_or(false);
}

absl::Status CreateError(absl::string_view text, NameRule rule) {
  return NamePattern::Create(text, rule).status();
}

TEST(NamePattern, CompressedIsAnExactNameOrAnExpressionFromTheStart) {
  const NameRule rule = NameRule::kCompressed;
  EXPECT_TRUE(Matches("lm_head", rule, "lm_head"));
  EXPECT_FALSE(Matches("lm_head", rule, "model.lm_head"));
  EXPECT_FALSE(Matches("model.layers.0", rule, "model.layers.0.mlp"));
  EXPECT_TRUE(Matches("re:.*mlp\\.gate$", rule, "model.layers.0.mlp.gate"));
  EXPECT_FALSE(Matches("re:.*mlp\\.gate$", rule, "model.layers.0.mlp.gate_proj"));
  EXPECT_TRUE(Matches("re:model\\.layers\\.1", rule, "model.layers.12.mlp"));
  EXPECT_FALSE(Matches("re:layers\\.1", rule, "model.layers.1"));
  EXPECT_TRUE(Matches("re:(?!.*visual).*proj", rule, "model.q_proj"));
  EXPECT_FALSE(Matches("re:(?!.*visual).*proj", rule, "model.visual.q_proj"));
  EXPECT_TRUE(Matches("re:", rule, "anything"));
}

TEST(NamePattern, SubstringsMatchAnywhere) {
  EXPECT_TRUE(Matches("gate", NameRule::kSubstring, "model.layers.0.mlp.gate_proj"));
  EXPECT_TRUE(Matches("visual", NameRule::kSubstring, "model.visual.blocks.0"));
  EXPECT_FALSE(Matches("visual", NameRule::kSubstring, "model.layers.0"));
  EXPECT_FALSE(Matches("a.b", NameRule::kSubstring, "a_b"));
}

TEST(NamePattern, LastPartAndPrefixEndAtDots) {
  EXPECT_TRUE(Matches("lm_head", NameRule::kLastPart, "lm_head"));
  EXPECT_TRUE(Matches("lm_head", NameRule::kLastPart, "language_model.lm_head"));
  EXPECT_FALSE(Matches("lm_head", NameRule::kLastPart, "my_lm_head"));
  EXPECT_TRUE(Matches("model.layers", NameRule::kPrefix, "model.layers.0"));
  EXPECT_TRUE(Matches("model.layers", NameRule::kPrefix, "model.layers"));
  EXPECT_FALSE(Matches("model.layer", NameRule::kPrefix, "model.layers.0"));
}

TEST(NamePattern, GlobsAreOfTheWholeName) {
  const NameRule rule = NameRule::kGlob;
  EXPECT_TRUE(Matches("model.layers.0*", rule, "model.layers.0.mlp"));
  EXPECT_FALSE(Matches("layers.0*", rule, "model.layers.0.mlp"));
  EXPECT_FALSE(Matches("*.mlp", rule, "model.layers.0.mlp.up"));
  EXPECT_TRUE(Matches("*lm_head*", rule, "lm_head"));
  EXPECT_TRUE(Matches("model.layers.[0-3].m?p", rule, "model.layers.2.mlp"));
  EXPECT_FALSE(Matches("model.layers.[!0-3].mlp", rule, "model.layers.2.mlp"));
  EXPECT_FALSE(Matches("model.layers?0*", rule, "modelXlayers.0"));
  EXPECT_TRUE(Matches("a[b*", rule, "a[bc"));
  // Without wildcards, a module and those in it.
  EXPECT_TRUE(Matches("model.vision", rule, "model.vision.block"));
  EXPECT_FALSE(Matches("model.vision", rule, "model.visions"));
}

TEST(NamePattern, TransformersMatchesUpToABorderOrTheEnd) {
  const NameRule rule = NameRule::kTransformers;
  EXPECT_TRUE(Matches("model.layers.1", rule, "model.layers.1.mlp"));
  EXPECT_FALSE(Matches("model.layers.1", rule, "model.layers.11.mlp"));
  EXPECT_TRUE(Matches("mlp.gate", rule, "model.layers.0.mlp.gate"));
  EXPECT_FALSE(Matches("mlp.gate", rule, "model.layers.0.mlp.gate_proj"));
  EXPECT_TRUE(Matches("model.layers.*.self_attn", rule, "model.layers.7.self_attn.q_proj"));
  EXPECT_FALSE(Matches("model.layers.*.mlp.gate", rule, "model.layers.7.mlp.gate_proj"));
  EXPECT_TRUE(Matches("model.visual.", rule, "model.visual.blocks"));
}

TEST(NamePattern, WhatIsNoExpressionIsRefused) {
  for (const absl::string_view bad : {"re:(", "re:[a", "re:*", "re:a{2,1}"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CreateError(bad, NameRule::kCompressed))) << bad;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(CreateError("", NameRule::kSubstring)));
  EXPECT_TRUE(absl::IsInvalidArgument(
      CreateError(absl::StrCat("re:", std::string(3000, 'a')), NameRule::kCompressed)));
  EXPECT_TRUE(absl::IsInvalidArgument(CreateError(
      absl::StrCat("re:", std::string(200, '('), std::string(200, ')')), NameRule::kCompressed)));
}

// Backtracking would take for ever, or much stack.
TEST(NamePattern, HostileExpressionsEndSoon) {
  const std::string name(5000, 'a');
  for (const char* hostile :
       {"(a+)+b", "(a*)*(a*)*(a*)*b", "(.*.*.*.*.*.*)x", "(a|aa)+$b", "(?=(a+)+b)c",
        "((((a{1,100}){1,100})))b", "(?R)?a", "(a)\\1+b", ".*(?=.*(?=.*(?=.*b)))"}) {
    const auto pattern = NamePattern::Create(hostile, NameRule::kRegex);
    if (!pattern.ok()) continue;
    const auto matches = pattern->Matches(name);
    if (matches.ok()) continue;
    EXPECT_THAT(std::string(matches.status().message()), HasSubstr("too complicated"));
  }
}

TEST(NamePatterns, HoldNamesAndAFewExpressions) {
  std::vector<std::string> texts;
  texts.reserve(5001);
  for (int i = 0; i < 5000; ++i) texts.push_back(absl::StrCat("model.layers.", i, ".mlp.gate"));
  texts.push_back("re:.*visual.*");
  const auto patterns = NamePatterns::Create(texts, NameRule::kCompressed);
  ASSERT_TRUE(patterns.ok()) << patterns.status();
  EXPECT_TRUE(*patterns->Matches("model.layers.4999.mlp.gate"));
  EXPECT_TRUE(*patterns->Matches("model.visual.merger"));
  EXPECT_FALSE(*patterns->Matches("model.layers.5000.mlp.gate"));
  EXPECT_TRUE(NamePatterns().empty());
  texts.assign(NamePatterns::kMaxExpressions + 1, "re:.*a");
  EXPECT_TRUE(absl::IsInvalidArgument(NamePatterns::Create(texts, NameRule::kCompressed).status()));
}

}  // namespace
}  // namespace quire

#include "server/text/tokenizer/stages/normalizer.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace quire {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// The text that the normalizer makes of `text`, or the error.
std::string Normalize(std::string_view normalizer, std::string text) {
  const absl::StatusOr<Normalizer> parsed = Normalizer::Parse(json::parse(normalizer));
  if (!parsed.ok()) return std::string(parsed.status().message());
  RegexScratch scratch;
  const absl::Status status = parsed->Apply(&text, &scratch);
  return status.ok() ? text : std::string(status.message());
}

TEST(NormalizerTest, NullChangesNothing) { EXPECT_EQ(Normalize("null", "e\u0301 ﬁ"), "e\u0301 ﬁ"); }

TEST(NormalizerTest, NormalForms) {
  EXPECT_EQ(Normalize(R"({"type": "NFC"})", "e\u0301 ﬁ \u1100\u1161\u11A8"), "é ﬁ 각");
  EXPECT_EQ(Normalize(R"({"type": "NFD"})", "é 각 ﬁ"), "e\u0301 \u1100\u1161\u11A8 ﬁ");
  EXPECT_EQ(Normalize(R"({"type": "NFKC"})", "e\u0301 ﬁ ㎧"), "é fi m\u2215s");
  EXPECT_EQ(Normalize(R"({"type": "NFKD"})", "é ﬁ ½"), "e\u0301 fi 1\u20442");
  EXPECT_EQ(Normalize(R"({"type": "NFC"})", "plain ASCII"), "plain ASCII");
}

TEST(NormalizerTest, MarksAreOrderedByClassAndOtherwiseStayPut) {
  EXPECT_EQ(Normalize(R"({"type": "NFD"})", "a\u0301\u0323\u0300"), "a\u0323\u0301\u0300");
  EXPECT_EQ(Normalize(R"({"type": "NFC"})", "a\u0323\u0302"), "\u1EAD");
}

TEST(NormalizerTest, CharactersNewerThanTheReferenceKnowsStayPut) {
  EXPECT_EQ(Normalize(R"({"type": "NFC"})", "a\u0301\u08CA\u0323"), "á\u08CA\u0323");
  EXPECT_EQ(Normalize(R"({"type": "NFD"})", "\U00011938"), "\U00011938");
}

TEST(NormalizerTest, PrependAndReplace) {
  EXPECT_EQ(Normalize(R"({"type": "Prepend", "prepend": "▁"})", "ab"), "▁ab");
  EXPECT_EQ(Normalize(R"({"type": "Prepend", "prepend": "▁"})", ""), "");
  EXPECT_EQ(
      Normalize(R"({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})", " a  b"),
      "▁a▁▁b");
  EXPECT_EQ(Normalize(R"({"type": "Replace", "pattern": {"String": "."}, "content": ""})", "a.b"),
            "ab");
  EXPECT_EQ(
      Normalize(R"({"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "})", "a \n b"),
      "a b");
}

TEST(NormalizerTest, NmtDropsControlsAndKnowsOneBlank) {
  EXPECT_EQ(Normalize(R"({"type": "Nmt"})", "a\tb\nc\u200Bd\u2581e\uFFFDf\u3000g"),
            "a b c d e f\u3000g");
  EXPECT_EQ(Normalize(R"({"type": "Nmt"})", "\x01\x08x\x0B\x0Ey\x1F\x7Fz\u008F\u009F\u0080"),
            "xyz\u0080");
}

TEST(NormalizerTest, LowercaseStripAndAccents) {
  EXPECT_EQ(Normalize(R"({"type": "Lowercase"})", "ÀBC ΣΑΣ İ"), "àbc σασ i\u0307");
  EXPECT_EQ(Normalize(R"({"type": "Lowercase"})", "\U00010D50\uA7CB\u1C89"),
            "\U00010D70\u0264\u1C8A");
  EXPECT_EQ(Normalize(R"({"type": "StripAccents"})", "e\u0301a\u1CF2"), "ea");
  EXPECT_EQ(Normalize(R"({"type": "Strip"})", " \u3000a b\n"), "a b");
  EXPECT_EQ(Normalize(R"({"type": "Strip", "strip_left": false, "strip_right": true})", " a "),
            " a");
  EXPECT_EQ(Normalize(R"({"type": "Strip"})", " \t "), "");
}

TEST(NormalizerTest, SequencesNest) {
  EXPECT_EQ(Normalize(R"({"type": "Sequence", "normalizers": [{"type": "NFD"},
                          {"type": "Sequence", "normalizers": [{"type": "StripAccents"}]},
                          {"type": "Lowercase"}]})",
                      "ÉÀ"),
            "ea");
}

TEST(NormalizerTest, ErrorsNameTheComponent) {
  EXPECT_THAT(Normalize(R"({"type": "BertNormalizer"})", ""),
              HasSubstr("\"BertNormalizer\" is not supported"));
  EXPECT_EQ(Normalize(R"({"type": "Precompiled", "precompiled_charsmap": "AAAA"})", ""),
            "the normalizer \"Precompiled\" is not supported");
  EXPECT_THAT(Normalize(R"({"type": "Prepend"})", ""),
              HasSubstr("Prepend: prepend is missing; it must be a string"));
  EXPECT_THAT(Normalize(R"({"type": 3})", ""), HasSubstr("type must be a string, not 3"));
  EXPECT_THAT(Normalize(R"([1])", ""), HasSubstr("type is missing; it must be a string"));
  EXPECT_THAT(Normalize(R"({"type": "Sequence"})", ""),
              HasSubstr("normalizers is missing; it must be a list"));
  EXPECT_THAT(Normalize(R"({"type": "Strip", "strip_left": 1})", ""), HasSubstr("true or false"));
  EXPECT_THAT(Normalize(R"({"type": "Replace", "pattern": {"String": ""}, "content": ""})", ""),
              HasSubstr("must not be empty"));
  EXPECT_THAT(Normalize(R"({"type": "Replace", "pattern": "x", "content": ""})", ""),
              HasSubstr("Replace.pattern"));
  EXPECT_THAT(Normalize(R"({"type": "Replace", "pattern": {"Regex": "("}, "content": ""})", ""),
              HasSubstr("regular expression"));
}

TEST(NormalizerTest, RefusesToGrowATextWithoutBound) {
  json replace = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(1 << 20, 'b')}};
  EXPECT_THAT(Normalize(replace.dump(), std::string(1 << 10, 'a')), HasSubstr("too long"));
}

}  // namespace
}  // namespace quire

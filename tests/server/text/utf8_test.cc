#include "server/text/utf8.h"

#include "gtest/gtest.h"

namespace quire {
namespace {

bool IsSurrogate(char32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

TEST(Utf8Test, EveryCodePointRoundTrips) {
  for (char32_t c = 0; c < kNumCodePoints; ++c) {
    if (IsSurrogate(c)) continue;
    std::string text;
    AppendUtf8(c, &text);
    const DecodedChar decoded = DecodeChar(text.data());
    ASSERT_EQ(decoded.code_point, c);
    ASSERT_EQ(decoded.num_bytes, text.size());
    ASSERT_EQ(DecodeCharBefore(text.data() + text.size()).code_point, c);
    ASSERT_FALSE(FindInvalidUtf8(text).has_value());
  }
}

TEST(Utf8Test, FindsTheFirstInvalidByteWhereverItIs) {
  const std::string_view invalid[] = {
      "\x80",              // only a continuation byte
      "\xC0\xAF",          // overlong
      "\xE0\x9F\xBF",      // overlong
      "\xED\xA0\x80",      // a surrogate
      "\xF4\x90\x80\x80",  // past U+10FFFF
      "\xFF",
      "\xC3",  // cut short
      "\xE4\xB8",
      "\xF0\x9F\x98",
      "\xE4\xB8 ",
  };
  for (const std::string_view bytes : invalid) {
    for (size_t offset = 0; offset < 20; ++offset) {
      const std::string text = std::string(offset, 'a') + std::string(bytes);
      ASSERT_EQ(FindInvalidUtf8(text), offset) << offset;
      const std::string longer = text + "more text behind it";
      ASSERT_EQ(FindInvalidUtf8(longer), offset) << offset;
    }
  }
  EXPECT_EQ(FindInvalidUtf8(""), std::nullopt);
  EXPECT_EQ(FindInvalidUtf8("aé日😀 and ten more ASCII bytes é"), std::nullopt);
}

TEST(Utf8Test, ClassifiesPrefixes) {
  const auto expect = [](std::string_view text, Utf8Start kind, uint32_t num_bytes) {
    const Utf8Prefix prefix = ClassifyUtf8Prefix(text);
    EXPECT_EQ(prefix.kind, kind) << text;
    EXPECT_EQ(prefix.num_bytes, num_bytes) << text;
  };
  expect("ab", Utf8Start::kCharacter, 1);
  expect("é", Utf8Start::kCharacter, 2);
  expect("😀x", Utf8Start::kCharacter, 4);
  expect("\xF0\x9F\x98", Utf8Start::kIncomplete, 3);
  expect("\xE4", Utf8Start::kIncomplete, 1);
  expect("\xF0\x9F\x98x", Utf8Start::kInvalid, 3);
  expect("\xE4\xFF", Utf8Start::kInvalid, 1);
  expect("\xED\xA0\x80", Utf8Start::kInvalid, 1);
  expect("\xBF", Utf8Start::kInvalid, 1);
}

TEST(Utf8Test, WhatIsNoCodePointHasNoBytes) {
  std::string text;
  AppendUtf8(kNumCodePoints, &text);
  AppendUtf8(static_cast<char32_t>(-1), &text);
  EXPECT_EQ(text, "");
}

TEST(Utf8Test, WalksThroughAnyBytes) {
  const std::string_view text = "a\xC3\xA9\xF0\x9F\x98z\xED\xA0\x80";
  std::vector<int32_t> codes;
  std::vector<size_t> starts;
  for (size_t at = 0; at < text.size(); at += CharacterAt(text, at).size) {
    starts.push_back(at);
    codes.push_back(CharacterAt(text, at).code);
  }
  EXPECT_EQ(codes, (std::vector<int32_t>{'a', 0xE9, -1, -1, -1, 'z', -1, -1, -1}));
  EXPECT_EQ(CountCharacters(text), codes.size());
  EXPECT_EQ(OffsetOfCharacter(text, 5), starts[5]);
  EXPECT_EQ(OffsetOfCharacter(text, 100), text.size());
  size_t end = text.size();
  for (auto start = starts.rbegin(); start != starts.rend(); ++start) {
    ASSERT_EQ(PreviousCharacter(text, end), *start);
    end = *start;
  }
}

}  // namespace
}  // namespace quire

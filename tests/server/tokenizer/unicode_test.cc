#include "server/tokenizer/unicode.h"

#include "gtest/gtest.h"

namespace quire {
namespace {

bool IsSurrogate(char32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

TEST(UnicodeTest, EveryCodePointRoundTrips) {
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

TEST(UnicodeTest, FindsTheFirstInvalidByteWhereverItIs) {
  const std::string_view invalid[] = {
      "\x80",              // a continuation byte alone
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

TEST(UnicodeTest, ClassifiesPrefixes) {
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

TEST(UnicodeTest, ClassesAreThoseOfUnicode16) {
  const uint8_t* classes = CharClasses();
  size_t num_letters = 0;
  size_t num_numbers = 0;
  size_t num_spaces = 0;
  for (char32_t c = 0; c < kNumCodePoints; ++c) {
    num_letters += (classes[c] & kLetter) != 0;
    num_numbers += (classes[c] & kNumber) != 0;
    num_spaces += (classes[c] & kSpace) != 0;
  }
  EXPECT_EQ(num_letters, 141028u);
  EXPECT_EQ(num_numbers, 1911u);
  EXPECT_EQ(num_spaces, 25u);
  EXPECT_EQ(classes[U'a'], kLetter | kWord);
  EXPECT_EQ(classes[U'_'], kPunctuation | kWord);
  EXPECT_EQ(classes[U'$'], kPunctuation);
  EXPECT_EQ(classes[0x301], kAccent | kWord);
  EXPECT_EQ(classes[0x180E], 0);                // not white space any more
  EXPECT_EQ(classes[0x1C89], kLetter | kWord);  // new in 16.0
}

TEST(UnicodeTest, StandInsKeepLengthAndClass) {
  const uint8_t kSplitClasses = kLetter | kNumber | kSpace;
  const uint8_t* classes = CharClasses();
  size_t num_replaced = 0;
  for (char32_t c = 0x80; c < kNumCodePoints; ++c) {
    if (IsSurrogate(c)) continue;
    std::string text = "x";
    AppendUtf8(c, &text);
    std::string replaced;
    if (!ReplaceRecentCharacters(text, &replaced)) continue;
    ++num_replaced;
    ASSERT_EQ(replaced.size(), text.size());
    ASSERT_FALSE(FindInvalidUtf8(replaced).has_value());
    const char32_t stand_in = DecodeChar(replaced.data() + 1).code_point;
    ASSERT_EQ(classes[stand_in] & kSplitClasses, classes[c] & kSplitClasses) << uint32_t{c};
  }
  EXPECT_GT(num_replaced, 10000u);
  std::string unused;
  EXPECT_FALSE(ReplaceRecentCharacters("Ordinary text, 日本語 and 😀", &unused));
}

}  // namespace
}  // namespace quire

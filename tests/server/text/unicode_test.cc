#include "server/text/unicode.h"

#include "gtest/gtest.h"
#include "server/text/utf8.h"

namespace quire {
namespace {

bool IsSurrogate(char32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

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

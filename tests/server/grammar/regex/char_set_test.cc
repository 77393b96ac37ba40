// Sets of characters, compared with plain loops over all of Unicode, and their spellings.
#include "server/grammar/regex/char_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "server/grammar/regex/char_class.h"
#include "server/text/utf8.h"
#include "tests/server/grammar/regex/matches.h"

namespace quire {
namespace {

bool IsSurrogate(char32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

std::string Utf8(char32_t c) {
  std::string text;
  AppendUtf8(c, &text);
  return text;
}

// The edges of the lengths of UTF-8, of surrogates and of Unicode, and some between.
std::vector<char32_t> ProbeChars() {
  std::vector<char32_t> chars;
  for (const char32_t edge : {0x0, 0x20, 0x22, 0x5C, 0x7F, 0x80, 0xBF, 0x7FF, 0x800, 0xFFF, 0x1000,
                              0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x3FFFF, 0x40000, 0x10FFFF}) {
    for (char32_t c = edge < 3 ? 0 : edge - 3; c <= edge + 3; ++c) {
      if (c < kNumCodePoints && !IsSurrogate(c)) chars.push_back(c);
    }
  }
  return chars;
}

CharSet RandomSet(std::mt19937* random) {
  const std::vector<char32_t> chars = ProbeChars();
  const auto pick = [&] { return chars[(*random)() % chars.size()]; };
  CharSet set;
  for (int i = (*random)() % 5; i >= 0; --i) {
    const char32_t a = pick(), b = pick();
    set.Add({std::min(a, b), (*random)() % 2 ? std::min(a, b) : std::max(a, b)});
  }
  return set;
}

TEST(CharSetTest, RangesThatTouchBecomeOneAndSurrogatesAreLeftOut) {
  EXPECT_EQ((CharSet{{'c', 'd'}, {'a', 'b'}}), (CharSet{{'a', 'd'}}));
  EXPECT_EQ((CharSet{{'a', 'f'}, {'b', 'c'}, {'h', 'h'}}).ranges().size(), 2u);
  EXPECT_EQ((CharSet{{0xD000, 0xE001}}), (CharSet{{0xD000, 0xD7FF}, {0xE000, 0xE001}}));
  EXPECT_TRUE((CharSet{{0xD800, 0xDFFF}}).empty());
  EXPECT_TRUE(CharSet::All().Complement().empty());
  EXPECT_EQ(CharSet().Complement(), CharSet::All());
  EXPECT_FALSE((CharSet{{0xD000, 0xFFFFFFFF}}).Has(0x110000));
}

TEST(CharSetTest, OperationsAreThoseOfTheirMembers) {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const CharSet a = RandomSet(&random), b = RandomSet(&random);
    for (const char32_t c : ProbeChars()) {
      ASSERT_EQ((a | b).Has(c), a.Has(c) || b.Has(c)) << Utf8(c);
      ASSERT_EQ((a & b).Has(c), a.Has(c) && b.Has(c)) << Utf8(c);
      ASSERT_EQ((a - b).Has(c), a.Has(c) && !b.Has(c)) << Utf8(c);
      ASSERT_EQ(a.Complement().Has(c), !a.Has(c)) << Utf8(c);
    }
    ASSERT_EQ(a.Complement().Complement(), a);
  }
}

TEST(CharSetTest, AllCasesAreThoseOfSimpleFolding) {
  EXPECT_EQ(CharSet::Of('a').WithAllCases(), (CharSet{{'A', 'A'}, {'a', 'a'}}));
  EXPECT_EQ(CharSet::Of('K').WithAllCases(), (CharSet{{'K', 'K'}, {'k', 'k'}, {0x212A, 0x212A}}));
  EXPECT_EQ(CharSet::Of(0x3C2).WithAllCases(),
            (CharSet{{0x3A3, 0x3A3}, {0x3C2, 0x3C2}, {0x3C3, 0x3C3}}));
  EXPECT_EQ(CharSet::Of(0x1C5).WithAllCases(), (CharSet{{0x1C4, 0x1C6}}));
  EXPECT_EQ(CharSet::Of(0xDF).WithAllCases(), (CharSet{{0xDF, 0xDF}, {0x1E9E, 0x1E9E}}));
  EXPECT_EQ(CharSet::Of('i').WithAllCases(), (CharSet{{'I', 'I'}, {'i', 'i'}}));
  EXPECT_EQ(CharSet::Of(0x130).WithAllCases(), CharSet::Of(0x130));
  EXPECT_EQ(CharSet::Of('1').WithAllCases(), CharSet::Of('1'));
}

TEST(CharSetTest, CategoriesHaveTheirCharacters) {
  EXPECT_TRUE(PropertyChars("Lu")->Has(0xC9));
  EXPECT_FALSE(PropertyChars("Lu")->Has(0xE9));
  EXPECT_EQ(PropertyChars("L"), PropertyChars("General_Category=Letter"));
  EXPECT_EQ(*PropertyChars("Assigned"), PropertyChars("Cn")->Complement());
  EXPECT_TRUE(PropertyChars("Nd")->Has(0x661));
  EXPECT_EQ(PropertyChars("Greek"), std::nullopt);
  EXPECT_EQ(PosixChars("nothing"), std::nullopt);
}

TEST(SpellTest, SpellsEachCharacterOfASetAndNothingElse) {
  std::mt19937 random(2);
  for (int i = 0; i < 100; ++i) {
    const CharSet set = RandomSet(&random);
    ExprStore store;
    const ExprId text = Spell(&store, set, Spelling::kText);
    const ExprId json = Spell(&store, set, Spelling::kJsonString);
    for (const char32_t c : ProbeChars()) {
      const std::string utf8 = Utf8(c);
      ASSERT_EQ(Matches(&store, text, utf8), set.Has(c)) << Utf8(c);
      ASSERT_EQ(Matches(&store, json, JsonSpelling(utf8)), set.Has(c)) << Utf8(c);
      ASSERT_EQ(Matches(&store, json, JsonSpelling(utf8, true)), set.Has(c)) << Utf8(c);
      ASSERT_FALSE(Matches(&store, text, utf8 + utf8)) << Utf8(c);
      ASSERT_FALSE(Matches(&store, text, utf8.substr(0, utf8.size() - 1))) << Utf8(c);
      if (JsonSpelling(utf8) != utf8) {
        ASSERT_FALSE(Matches(&store, json, utf8)) << Utf8(c);
      }
    }
  }
}

TEST(SpellTest, OtherBytesAreNoText) {
  ExprStore store;
  const ExprId text = AnyText(&store, Spelling::kText);
  const ExprId json = AnyText(&store, Spelling::kJsonString);
  for (const std::string_view bytes :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xC3", "\xFF"}) {
    EXPECT_FALSE(Matches(&store, text, bytes)) << testing::PrintToString(bytes);
    EXPECT_FALSE(Matches(&store, json, bytes)) << testing::PrintToString(bytes);
  }
  for (const std::string_view bytes : {"", "a", "\x7F/", "\xC3\xA9", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(Matches(&store, text, bytes)) << bytes;
    EXPECT_TRUE(Matches(&store, json, bytes)) << bytes;
  }
  EXPECT_TRUE(Matches(&store, text, std::string_view("\0\n\"\\", 4)));
  // Other ways to write the same are not canonical.
  for (const std::string_view bytes : {"\n", "\"", "\\", "\\/", "\\u0041", "\\u0008", "\\u000a",
                                       "\\u00e9", "\\ud83d\\ude00", "\\x", "\\u00"}) {
    EXPECT_FALSE(Matches(&store, json, bytes)) << bytes;
  }
  for (const std::string_view bytes : {R"(\")", R"(\\)", R"(\b\f\n\r\t)", R"(\u0000\u001f\u001F)"})
    EXPECT_TRUE(Matches(&store, json, bytes)) << bytes;
}

TEST(SpellTest, CommonSetsAreSmall) {
  const auto num_terms = [](const CharSet& set, Spelling spelling) {
    ExprStore store;
    Spell(&store, set, spelling);
    return store.size();
  };
  EXPECT_LE(num_terms(CharSet::All(), Spelling::kText), 35u);
  EXPECT_LE(num_terms(CharSet::All(), Spelling::kJsonString), 45u);
  EXPECT_LE(num_terms(LineEndChars().Complement(), Spelling::kText), 50u);
  EXPECT_LE(num_terms(WordChars(), Spelling::kJsonString), 15u);
  EXPECT_LE(num_terms(*PropertyChars("L"), Spelling::kText), 800u);
}

TEST(SpellTest, ATextIsSpelledCharacterByCharacter) {
  ExprStore store;
  const std::string_view text("a\"\\\n\x01\x1F\xC3\xA9", 8);
  EXPECT_EQ(SpellText(&store, text, Spelling::kText), store.Literal(text));
  const ExprId json = SpellText(&store, text, Spelling::kJsonString);
  EXPECT_TRUE(Matches(&store, json, JsonSpelling(text)));
  EXPECT_TRUE(Matches(&store, json, JsonSpelling(text, true)));
  EXPECT_FALSE(Matches(&store, json, text));
  EXPECT_EQ(SpellText(&store, "", Spelling::kJsonString), ExprStore::kEmpty);
  EXPECT_EQ(SpellText(&store, "\"", Spelling::kJsonString),
            Spell(&store, CharSet::Of('"'), Spelling::kJsonString));
}

}  // namespace
}  // namespace quire

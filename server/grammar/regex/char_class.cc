#include "server/grammar/regex/char_class.h"

#include <utf8proc.h>

#include <array>
#include <cstdint>

#include "server/text/utf8.h"

namespace quire {

namespace {

constexpr uint32_t Bit(utf8proc_category_t category) { return uint32_t{1} << category; }

constexpr uint32_t kCasedLetters =
    Bit(UTF8PROC_CATEGORY_LU) | Bit(UTF8PROC_CATEGORY_LL) | Bit(UTF8PROC_CATEGORY_LT);
constexpr uint32_t kLetters = kCasedLetters | Bit(UTF8PROC_CATEGORY_LM) | Bit(UTF8PROC_CATEGORY_LO);
constexpr uint32_t kMarks =
    Bit(UTF8PROC_CATEGORY_MN) | Bit(UTF8PROC_CATEGORY_MC) | Bit(UTF8PROC_CATEGORY_ME);
constexpr uint32_t kNumbers =
    Bit(UTF8PROC_CATEGORY_ND) | Bit(UTF8PROC_CATEGORY_NL) | Bit(UTF8PROC_CATEGORY_NO);
constexpr uint32_t kPunctuations = Bit(UTF8PROC_CATEGORY_PC) | Bit(UTF8PROC_CATEGORY_PD) |
                                   Bit(UTF8PROC_CATEGORY_PS) | Bit(UTF8PROC_CATEGORY_PE) |
                                   Bit(UTF8PROC_CATEGORY_PI) | Bit(UTF8PROC_CATEGORY_PF) |
                                   Bit(UTF8PROC_CATEGORY_PO);
constexpr uint32_t kSymbols = Bit(UTF8PROC_CATEGORY_SM) | Bit(UTF8PROC_CATEGORY_SC) |
                              Bit(UTF8PROC_CATEGORY_SK) | Bit(UTF8PROC_CATEGORY_SO);
constexpr uint32_t kSeparators =
    Bit(UTF8PROC_CATEGORY_ZS) | Bit(UTF8PROC_CATEGORY_ZL) | Bit(UTF8PROC_CATEGORY_ZP);
// Surrogates (Cs), which are in this group, are in no set.
constexpr uint32_t kOthers = Bit(UTF8PROC_CATEGORY_CC) | Bit(UTF8PROC_CATEGORY_CF) |
                             Bit(UTF8PROC_CATEGORY_CO) | Bit(UTF8PROC_CATEGORY_CN);

// The names that Unicode's PropertyValueAliases.txt has for general categories.
struct CategoryName {
  std::string_view short_name, long_name;
  uint32_t categories;  // Bit of each
};
constexpr CategoryName kCategoryNames[] = {
    {"L", "Letter", kLetters},
    {"LC", "Cased_Letter", kCasedLetters},
    {"Lu", "Uppercase_Letter", Bit(UTF8PROC_CATEGORY_LU)},
    {"Ll", "Lowercase_Letter", Bit(UTF8PROC_CATEGORY_LL)},
    {"Lt", "Titlecase_Letter", Bit(UTF8PROC_CATEGORY_LT)},
    {"Lm", "Modifier_Letter", Bit(UTF8PROC_CATEGORY_LM)},
    {"Lo", "Other_Letter", Bit(UTF8PROC_CATEGORY_LO)},
    {"M", "Mark", kMarks},
    {"M", "Combining_Mark", kMarks},
    {"Mn", "Nonspacing_Mark", Bit(UTF8PROC_CATEGORY_MN)},
    {"Mc", "Spacing_Mark", Bit(UTF8PROC_CATEGORY_MC)},
    {"Me", "Enclosing_Mark", Bit(UTF8PROC_CATEGORY_ME)},
    {"N", "Number", kNumbers},
    {"Nd", "Decimal_Number", Bit(UTF8PROC_CATEGORY_ND)},
    {"Nd", "digit", Bit(UTF8PROC_CATEGORY_ND)},
    {"Nl", "Letter_Number", Bit(UTF8PROC_CATEGORY_NL)},
    {"No", "Other_Number", Bit(UTF8PROC_CATEGORY_NO)},
    {"P", "Punctuation", kPunctuations},
    {"P", "punct", kPunctuations},
    {"Pc", "Connector_Punctuation", Bit(UTF8PROC_CATEGORY_PC)},
    {"Pd", "Dash_Punctuation", Bit(UTF8PROC_CATEGORY_PD)},
    {"Ps", "Open_Punctuation", Bit(UTF8PROC_CATEGORY_PS)},
    {"Pe", "Close_Punctuation", Bit(UTF8PROC_CATEGORY_PE)},
    {"Pi", "Initial_Punctuation", Bit(UTF8PROC_CATEGORY_PI)},
    {"Pf", "Final_Punctuation", Bit(UTF8PROC_CATEGORY_PF)},
    {"Po", "Other_Punctuation", Bit(UTF8PROC_CATEGORY_PO)},
    {"S", "Symbol", kSymbols},
    {"Sm", "Math_Symbol", Bit(UTF8PROC_CATEGORY_SM)},
    {"Sc", "Currency_Symbol", Bit(UTF8PROC_CATEGORY_SC)},
    {"Sk", "Modifier_Symbol", Bit(UTF8PROC_CATEGORY_SK)},
    {"So", "Other_Symbol", Bit(UTF8PROC_CATEGORY_SO)},
    {"Z", "Separator", kSeparators},
    {"Zs", "Space_Separator", Bit(UTF8PROC_CATEGORY_ZS)},
    {"Zl", "Line_Separator", Bit(UTF8PROC_CATEGORY_ZL)},
    {"Zp", "Paragraph_Separator", Bit(UTF8PROC_CATEGORY_ZP)},
    {"C", "Other", kOthers},
    {"Cc", "Control", Bit(UTF8PROC_CATEGORY_CC)},
    {"Cc", "cntrl", Bit(UTF8PROC_CATEGORY_CC)},
    {"Cf", "Format", Bit(UTF8PROC_CATEGORY_CF)},
    {"Cs", "Surrogate", 0},
    {"Co", "Private_Use", Bit(UTF8PROC_CATEGORY_CO)},
    {"Cn", "Unassigned", Bit(UTF8PROC_CATEGORY_CN)},
};

constexpr int kNumCategories = UTF8PROC_CATEGORY_CO + 1;

// The characters of each category.
const std::array<CharSet, kNumCategories>& CategorySets() {
  static const std::array<CharSet, kNumCategories>* const sets = [] {
    auto* const result = new std::array<CharSet, kNumCategories>;
    for (char32_t first = 0, last = 0; first < kNumCodePoints; first = last + 1) {
      const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(first));
      for (last = first; last + 1 < kNumCodePoints; ++last) {
        if (utf8proc_category(static_cast<utf8proc_int32_t>(last + 1)) != category) break;
      }
      (*result)[category].Add({first, last});
    }
    return result;
  }();
  return *sets;
}

CharSet CharsOf(uint32_t categories) {
  std::vector<CharSet::Range> ranges;
  for (int i = 0; i < kNumCategories; ++i) {
    if (((categories >> i) & 1) == 0) continue;
    const std::vector<CharSet::Range>& more = CategorySets()[i].ranges();
    ranges.insert(ranges.end(), more.begin(), more.end());
  }
  return CharSet(std::move(ranges));
}

}  // namespace

const CharSet& DigitChars() {
  static const auto* const set = new CharSet{{'0', '9'}};
  return *set;
}

const CharSet& WordChars() {
  static const auto* const set = new CharSet{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return *set;
}

const CharSet& SpaceChars() {
  static const auto* const set = new CharSet{
      {'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
      {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return *set;
}

const CharSet& LineEndChars() {
  static const auto* const set = new CharSet{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return *set;
}

std::optional<CharSet> PosixChars(std::string_view name) {
  if (name == "alpha") return CharSet{{'A', 'Z'}, {'a', 'z'}};
  if (name == "digit") return DigitChars();
  if (name == "alnum") return CharSet{{'0', '9'}, {'A', 'Z'}, {'a', 'z'}};
  if (name == "upper") return CharSet{{'A', 'Z'}};
  if (name == "lower") return CharSet{{'a', 'z'}};
  if (name == "space") return CharSet{{'\t', '\r'}, {' ', ' '}};
  if (name == "blank") return CharSet{{'\t', '\t'}, {' ', ' '}};
  if (name == "punct") return CharSet{{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}};
  if (name == "print") return CharSet{{' ', '~'}};
  if (name == "graph") return CharSet{{'!', '~'}};
  if (name == "cntrl") return CharSet{{0, 0x1F}, {0x7F, 0x7F}};
  if (name == "xdigit") return CharSet{{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
  if (name == "word") return WordChars();
  if (name == "ascii") return CharSet{{0, 0x7F}};
  return std::nullopt;
}

std::optional<CharSet> PropertyChars(std::string_view name) {
  if (name == "Any") return CharSet::All();
  if (name == "ASCII") return CharSet{{0, 0x7F}};
  if (name == "Assigned") return CharsOf(Bit(UTF8PROC_CATEGORY_CN)).Complement();
  for (const std::string_view prefix : {"gc=", "General_Category="}) {
    if (name.substr(0, prefix.size()) == prefix) name.remove_prefix(prefix.size());
  }
  if (name == "L&") return CharsOf(kCasedLetters);
  for (const CategoryName& category : kCategoryNames) {
    if (name == category.short_name || name == category.long_name)
      return CharsOf(category.categories);
  }
  return std::nullopt;
}

}  // namespace quire

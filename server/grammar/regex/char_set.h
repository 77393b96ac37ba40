// Sets of Unicode characters, and the bytes that spell a character: as UTF-8, or inside a JSON
// string. A set is made of sorted ranges that neither overlap nor touch. Surrogates (U+D800 to
// U+DFFF) are in no set, because no valid text has them. Any thread.
#pragma once

#include <compare>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "server/grammar/expr/expr_store.h"

namespace quire {

class CharSet {
 public:
  // Characters `first` to `last`, both included.
  struct Range {
    char32_t first;
    char32_t last;

    friend auto operator<=>(const Range&, const Range&) = default;
  };

  CharSet() = default;
  // In any order. They may overlap, and may have surrogates, which are left out.
  explicit CharSet(std::vector<Range> ranges);
  CharSet(std::initializer_list<Range> ranges) : CharSet(std::vector<Range>(ranges)) {}
  static CharSet All();
  static CharSet Of(char32_t c) { return CharSet{{c, c}}; }

  void Add(Range range);
  bool Has(char32_t c) const;
  bool empty() const { return ranges_.empty(); }
  bool is_single() const { return ranges_.size() == 1 && ranges_[0].first == ranges_[0].last; }
  const std::vector<Range>& ranges() const { return ranges_; }

  CharSet Complement() const;
  // With every character that is a case of a character of the set, by Unicode's simple case
  // folding: U+212A, the sign of Kelvin, is a case of k; the Turkish dotted and dotless letters
  // are cases of nothing.
  CharSet WithAllCases() const;

  friend CharSet operator|(const CharSet& a, const CharSet& b);
  friend CharSet operator&(const CharSet& a, const CharSet& b);
  friend CharSet operator-(const CharSet& a, const CharSet& b) { return a & b.Complement(); }
  friend auto operator<=>(const CharSet&, const CharSet&) = default;

 private:
  std::vector<Range> ranges_;
};

enum class Spelling {
  kText,  // UTF-8
  // The characters between the quotes of a JSON string, each in its canonical form: as UTF-8,
  // except \" \\ \b \f \n \r \t and \u00XX (lower or upper case) for the other characters below
  // U+0020.
  kJsonString,
};

// The spellings of one character of the set.
ExprId Spell(ExprStore* store, const CharSet& chars, Spelling spelling);

// The spellings of a text, which is valid UTF-8.
ExprId SpellText(ExprStore* store, std::string_view utf8, Spelling spelling);

// The spellings of all texts, the empty one included.
ExprId AnyText(ExprStore* store, Spelling spelling);

}  // namespace quire

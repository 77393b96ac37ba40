#include "server/grammar/regex/char_set.h"

#include <utf8proc.h>

#include <algorithm>
#include <string>
#include <utility>

#include "server/text/utf8.h"

namespace quire {

namespace {

constexpr char32_t kLastChar = kNumCodePoints - 1;
constexpr char32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

using CasePair = std::pair<char32_t, char32_t>;

// Each character and each other one that has the same simple case folding, sorted.
const std::vector<CasePair>& CasePairs() {
  static const std::vector<CasePair>* const pairs = [] {
    // By what they fold to. Lower of upper is the simple folding of all characters, except the
    // Turkish i's, which fold to themselves.
    std::vector<CasePair> folded;
    for (char32_t c = 0; c <= kLastChar; ++c) {
      const auto code = static_cast<utf8proc_int32_t>(c);
      const utf8proc_int32_t upper = utf8proc_toupper(code);
      if ((upper == code && utf8proc_tolower(code) == code) || c == 0x130 || c == 0x131) continue;
      folded.emplace_back(static_cast<char32_t>(utf8proc_tolower(upper)), c);
    }
    std::sort(folded.begin(), folded.end());
    auto* const result = new std::vector<CasePair>;
    for (size_t begin = 0, end = 0; begin < folded.size(); begin = end) {
      while (end < folded.size() && folded[end].first == folded[begin].first) ++end;
      for (size_t i = begin; i < end; ++i) {
        for (size_t j = begin; j < end; ++j) {
          if (i != j) result->emplace_back(folded[i].second, folded[j].second);
        }
      }
    }
    std::sort(result->begin(), result->end());
    return result;
  }();
  return *pairs;
}

using Ranges = std::vector<CharSet::Range>;

// The parts of sorted ranges inside `window`, less `base`.
Ranges Clip(const Ranges& ranges, CharSet::Range window, char32_t base) {
  Ranges result;
  auto range = std::lower_bound(
      ranges.begin(), ranges.end(), window.first,
      [](const CharSet::Range& each, char32_t first) { return each.last < first; });
  for (; range != ranges.end() && range->first <= window.last; ++range) {
    result.push_back(
        {std::max(range->first, window.first) - base, std::min(range->last, window.last) - base});
  }
  return result;
}

// Numbers as a byte and `num_more` continuation bytes behind it: six bits of the number in each,
// the highest first; they are added to `lead` in the first byte. Calls itself at most three times
// deep. Leading bytes with the same continuations share them.
ExprId SpellBytes(ExprStore* store, const Ranges& values, int num_more, uint8_t lead) {
  const int shift = 6 * num_more;
  std::vector<std::pair<ExprId, ByteSet>> groups;
  char32_t next = 0;  // the first digit that is not done
  for (const CharSet::Range& range : values) {
    for (char32_t digit = std::max<char32_t>(next, range.first >> shift);
         digit <= range.last >> shift; ++digit) {
      ExprId more = ExprStore::kEmpty;
      const CharSet::Range window = {digit << shift, ((digit + 1) << shift) - 1};
      if (range.first <= window.first && window.last <= range.last) {
        for (int i = 0; i < num_more; ++i)
          more = store->Concat(store->Bytes(ByteSet::Range(0x80, 0xBF)), more);
      } else {
        more = SpellBytes(store, Clip(values, window, window.first), num_more - 1, 0x80);
      }
      auto group = std::find_if(groups.begin(), groups.end(),
                                [more](const auto& each) { return each.first == more; });
      if (group == groups.end()) group = groups.insert(group, {more, ByteSet()});
      group->second.Add(static_cast<uint8_t>(lead + digit));
      next = digit + 1;
    }
  }
  std::vector<ExprId> alternatives;
  alternatives.reserve(groups.size());
  for (const auto& [more, bytes] : groups)
    alternatives.push_back(store->Concat(store->Bytes(bytes), more));
  return store->Or(alternatives);
}

// The letter behind the backslash of a short escape; 0 for characters without one.
char ShortEscape(char32_t c) {
  switch (c) {
    case '"':
    case '\\':
      return static_cast<char>(c);
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return 0;
  }
}

bool IsEscapedInJson(char32_t c) { return c < 0x20 || c == '"' || c == '\\'; }

// The escapes of those characters of the set that JSON escapes.
ExprId SpellEscapes(ExprStore* store, const CharSet& chars) {
  ByteSet short_escapes;
  ByteSet digits[2];  // the last digit of \u000X and \u001X
  for (char32_t c = 0; c <= '\\'; ++c) {
    if (!IsEscapedInJson(c) || !chars.Has(c)) continue;
    if (const char letter = ShortEscape(c)) {
      short_escapes.Add(static_cast<uint8_t>(letter));
      continue;
    }
    digits[c >> 4].Add(static_cast<uint8_t>("0123456789abcdef"[c & 15]));
    digits[c >> 4].Add(static_cast<uint8_t>("0123456789ABCDEF"[c & 15]));
  }
  const auto ending = [&](char first, const ByteSet& second) {
    return store->Concat(store->Byte(static_cast<uint8_t>(first)), store->Bytes(second));
  };
  const ExprId hex = store->Concat(store->Literal("u00"),
                                   store->Or(ending('0', digits[0]), ending('1', digits[1])));
  return store->Concat(store->Byte('\\'), store->Or(store->Bytes(short_escapes), hex));
}

}  // namespace

CharSet::CharSet(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end());
  for (const Range& range : ranges) Add(range);
}

CharSet CharSet::All() { return CharSet{{0, kLastChar}}; }

void CharSet::Add(Range range) {
  range.last = std::min(range.last, kLastChar);
  if (range.first < kFirstSurrogate && range.last >= kFirstSurrogate) {
    Add({range.first, kFirstSurrogate - 1});
    range.first = kFirstSurrogate;
  }
  if (range.first >= kFirstSurrogate && range.first <= kLastSurrogate)
    range.first = kLastSurrogate + 1;
  if (range.first > range.last) return;
  // The ranges that it overlaps or touches become one with it.
  auto begin =
      std::lower_bound(ranges_.begin(), ranges_.end(), range.first,
                       [](const Range& each, char32_t first) { return each.last + 1 < first; });
  auto end = begin;
  for (; end != ranges_.end() && end->first <= range.last + 1; ++end) {
    range.first = std::min(range.first, end->first);
    range.last = std::max(range.last, end->last);
  }
  if (begin == end) {
    ranges_.insert(begin, range);
  } else {
    *begin = range;
    ranges_.erase(begin + 1, end);
  }
}

bool CharSet::Has(char32_t c) const {
  const auto range =
      std::lower_bound(ranges_.begin(), ranges_.end(), c,
                       [](const Range& each, char32_t value) { return each.last < value; });
  return range != ranges_.end() && range->first <= c;
}

CharSet CharSet::Complement() const {
  CharSet result;
  char32_t next = 0;
  for (const Range& range : ranges_) {
    if (range.first > next) result.Add({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastChar) result.Add({next, kLastChar});
  return result;
}

CharSet CharSet::WithAllCases() const {
  std::vector<Range> ranges = ranges_;
  const std::vector<CasePair>& pairs = CasePairs();
  for (const Range& range : ranges_) {
    auto pair = std::lower_bound(pairs.begin(), pairs.end(), CasePair{range.first, 0});
    for (; pair != pairs.end() && pair->first <= range.last; ++pair)
      ranges.push_back({pair->second, pair->second});
  }
  return CharSet(std::move(ranges));
}

CharSet operator|(const CharSet& a, const CharSet& b) {
  std::vector<CharSet::Range> ranges = a.ranges_;
  ranges.insert(ranges.end(), b.ranges_.begin(), b.ranges_.end());
  return CharSet(std::move(ranges));
}

CharSet operator&(const CharSet& a, const CharSet& b) {
  CharSet result;
  for (auto i = a.ranges_.begin(), j = b.ranges_.begin();
       i != a.ranges_.end() && j != b.ranges_.end();) {
    const CharSet::Range both = {std::max(i->first, j->first), std::min(i->last, j->last)};
    if (both.first <= both.last) result.Add(both);
    i->last < j->last ? ++i : ++j;
  }
  return result;
}

ExprId Spell(ExprStore* store, const CharSet& chars, Spelling spelling) {
  const Ranges& ranges = chars.ranges();
  if (chars.is_single()) {
    std::string text;
    AppendUtf8(ranges[0].first, &text);
    return SpellText(store, text, spelling);
  }
  ByteSet ascii;
  bool has_escapes = false;
  for (const CharSet::Range& range : Clip(ranges, {0, 0x7F}, 0)) {
    for (char32_t c = range.first; c <= range.last; ++c) {
      if (spelling == Spelling::kJsonString && IsEscapedInJson(c)) {
        has_escapes = true;
      } else {
        ascii.Add(static_cast<uint8_t>(c));
      }
    }
  }
  std::vector<ExprId> alternatives = {
      store->Bytes(ascii), SpellBytes(store, Clip(ranges, {0x80, 0x7FF}, 0), 1, 0xC0),
      SpellBytes(store, Clip(ranges, {0x800, 0xFFFF}, 0), 2, 0xE0),
      SpellBytes(store, Clip(ranges, {0x10000, kLastChar}, 0), 3, 0xF0)};
  if (has_escapes) alternatives.push_back(SpellEscapes(store, chars));
  return store->Or(alternatives);
}

ExprId SpellText(ExprStore* store, std::string_view utf8, Spelling spelling) {
  if (spelling == Spelling::kText) return store->Literal(utf8);
  // Parts with one spelling, and between them the characters that have two.
  std::vector<ExprId> parts;
  std::string literal;
  for (const char c : utf8) {
    const auto code = static_cast<uint8_t>(c);
    if (!IsEscapedInJson(code)) {
      literal.push_back(c);
    } else if (const char letter = ShortEscape(code)) {
      literal.push_back('\\');
      literal.push_back(letter);
    } else {
      parts.push_back(store->Literal(literal));
      literal.clear();
      parts.push_back(SpellEscapes(store, CharSet::Of(code)));
    }
  }
  ExprId result = store->Literal(literal);
  while (!parts.empty()) {
    result = store->Concat(parts.back(), result);
    parts.pop_back();
  }
  return result;
}

ExprId AnyText(ExprStore* store, Spelling spelling) {
  return store->Star(Spell(store, CharSet::All(), spelling));
}

}  // namespace quire

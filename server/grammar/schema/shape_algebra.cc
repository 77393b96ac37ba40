#include "server/grammar/schema/shape_algebra.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "server/grammar/expr/derivative.h"
#include "server/grammar/expr/text_list.h"
#include "server/grammar/schema/json_spelling.h"

namespace quire {

namespace {

// The tighter one of two bounds; `sign` is 1 for minima, -1 for maxima.
std::optional<NumberBound> Tighter(const std::optional<NumberBound>& a,
                                   const std::optional<NumberBound>& b, int sign) {
  if (!a) return b;
  if (!b) return a;
  const int order = sign * Compare(a->value, b->value);
  if (order != 0) return order > 0 ? a : b;
  return a->is_exclusive ? a : b;
}

// Pairs of cells that are intersected for one schema.
constexpr size_t kMaxPairs = 200'000;
// Cells and members that are compared with others, some ns each.
constexpr size_t kMaxCompared = 50'000'000;
// Derivatives that are kept: lists of texts are filtered by the same contents again and again.
constexpr size_t kMaxKeptDerivatives = 100'000;

// Whether it is any character, or characters that JSON writes as one byte each.
bool IsOneCharacter(const ExprStore& store, ExprId id, ExprId any_character) {
  const ByteSet plain = ByteSet::Range(0x20, 0x7f) - ByteSet{'"', '\\'};
  if (id == any_character) return true;
  return store.kind(id) == ExprKind::kBytes && (store.bytes(id) - plain).empty();
}

template <typename T>
void AddNew(std::vector<T>* list, const std::vector<T>& more) {
  for (const T& value : more) {
    if (std::find(list->begin(), list->end(), value) == list->end()) list->push_back(value);
  }
}

}  // namespace

void ShapeAlgebra::Check(size_t num_cells) {
  if (num_cells > max_cells_ || num_pairs_ > kMaxPairs || num_compared_ > kMaxCompared) {
    Fail(absl::ResourceExhaustedError(
        "too many combinations of anyOf, oneOf, allOf and not; use fewer alternatives"));
  }
}

template <typename Cell>
std::vector<Cell> ShapeAlgebra::IntersectAll(const std::vector<Cell>& a,
                                             const std::vector<Cell>& b) {
  std::vector<Cell> result;
  for (const Cell& one : a) {
    for (const Cell& other : b) {
      Intersect(one, other, &result);
      ++num_pairs_;
      Check(result.size());
      if (!status_.ok()) return result;
    }
  }
  return result;
}

Shape ShapeAlgebra::Intersect(const Shape& a, const Shape& b) {
  return {a.has_null && b.has_null,           a.has_true && b.has_true,
          a.has_false && b.has_false,         IntersectAll(a.numbers, b.numbers),
          IntersectAll(a.strings, b.strings), IntersectAll(a.arrays, b.arrays),
          IntersectAll(a.objects, b.objects)};
}

Shape ShapeAlgebra::Unite(Shape a, const Shape& b) {
  a.has_null = a.has_null || b.has_null;
  a.has_true = a.has_true || b.has_true;
  a.has_false = a.has_false || b.has_false;
  AddNew(&a.numbers, b.numbers);
  AddNew(&a.arrays, b.arrays);
  AddNew(&a.objects, b.objects);
  // Lists of texts become one list.
  for (const StringCell& cell : b.strings) {
    const auto known = std::find_if(a.strings.begin(), a.strings.end(),
                                    [](const StringCell& c) { return !c.texts.empty(); });
    if (!cell.texts.empty() && known != a.strings.end()) {
      AddNew(&known->texts, cell.texts);
    } else if (std::find(a.strings.begin(), a.strings.end(), cell) == a.strings.end()) {
      a.strings.push_back(cell);
    }
  }
  Check(a.num_cells());
  return a;
}

void ShapeAlgebra::Intersect(const NumberCell& a, const NumberCell& b,
                             std::vector<NumberCell>* cells) {
  using Kind = NumberCell::Kind;
  if (a.kind != b.kind && a.kind != Kind::kAny && b.kind != Kind::kAny) return;
  NumberCell both = a;
  both.kind = a.kind == Kind::kAny ? b.kind : a.kind;
  both.min = Tighter(a.min, b.min, 1);
  both.max = Tighter(a.max, b.max, -1);
  AddNew(&both.multiple_of, b.multiple_of);
  AddNew(&both.not_multiple_of, b.not_multiple_of);
  if (!IsEmpty(both)) AddNew(cells, {both});
}

void ShapeAlgebra::Intersect(const StringCell& a, const StringCell& b,
                             std::vector<StringCell>* cells) {
  if (a.texts.empty() && !b.texts.empty()) return Intersect(b, a, cells);
  StringCell both;
  if (!a.texts.empty()) {
    const ExprId other = ContentOf(b);
    for (const std::string& text : a.texts) {
      if (Has(other, text)) both.texts.push_back(text);
    }
    if (!both.texts.empty()) AddNew(cells, {both});
    return;
  }
  both.min = std::max(a.min, b.min);
  both.max = std::min(a.max, b.max);
  both.content = store_.And(a.content, b.content);
  if (both.min <= both.max && both.content != ExprStore::kNothing) AddNew(cells, {both});
}

ExprId ShapeAlgebra::ContentOf(const StringCell& cell) {
  if (!cell.texts.empty()) {
    return OneOfTexts(&store_, {cell.texts.begin(), cell.texts.end()});
  }
  if (cell.min == 0 && cell.max == kUnbounded) return cell.content;
  // Characters of one kind are counted as they are: [a-z]* of 5 to 9 characters is [a-z]{5,9}.
  const ExprId content = cell.content;
  if (store_.kind(content) == ExprKind::kRepeat &&
      IsOneCharacter(store_, store_.first(content), store_.first(AnyJsonText(&store_)))) {
    const uint32_t min = std::max(cell.min, store_.min(content)),
                   max = std::min(cell.max, store_.max(content));
    return min <= max ? store_.Repeat(store_.first(content), min, max) : ExprStore::kNothing;
  }
  return store_.And(cell.content, JsonText(&store_, cell.min, cell.max));
}

void ShapeAlgebra::Intersect(const ArrayCell& a, const ArrayCell& b,
                             std::vector<ArrayCell>* cells) {
  ArrayCell both;
  for (size_t i = 0; i < std::max(a.prefix.size(), b.prefix.size()); ++i) {
    both.prefix.push_back(formulas_.Both(a.item(i), b.item(i)));
  }
  both.rest = formulas_.Both(a.rest, b.rest);
  both.min = std::max(a.min, b.min);
  both.max = std::min(a.max, b.max);
  both.contains = a.contains;
  for (const ArrayCell::Contains& contains : b.contains) {
    const auto same = std::find_if(both.contains.begin(), both.contains.end(),
                                   [&](const auto& c) { return c.value == contains.value; });
    if (same == both.contains.end()) {
      both.contains.push_back(contains);
      continue;
    }
    same->min = std::max(same->min, contains.min);
    same->max = std::min(same->max, contains.max);
    if (same->min > same->max) return;
  }
  both.is_unique = a.is_unique || b.is_unique;
  for (size_t i = 0; i <= both.prefix.size(); ++i) {
    if (!formulas_.IsSurelyEmpty(both.item(i))) continue;
    both.max = std::min(both.max, static_cast<uint32_t>(i));
    both.prefix.resize(std::min(both.prefix.size(), i));
    both.rest = kNoValue;
    break;
  }
  if (both.min <= both.max) AddNew(cells, {both});
}

bool ShapeAlgebra::Has(ExprId content, std::string_view spelled) {
  if (content == ExprStore::kAnything) return true;
  if (store_.kind(content) == ExprKind::kLiteral) return store_.literal(content) == spelled;
  for (const char c : spelled) {
    const uint8_t byte = static_cast<uint8_t>(c);
    const uint64_t key = (uint64_t{content} << 8) | byte;
    if (const auto known = derivatives_.find(key); known != derivatives_.end()) {
      content = known->second;
      continue;
    }
    content = Derivative(&store_, content, byte);
    if (derivatives_.size() < kMaxKeptDerivatives) derivatives_[key] = content;
  }
  return store_.is_nullable(content);
}

bool ShapeAlgebra::HasName(ExprId names, const std::string& name) {
  return Has(names, JsonSpelling(name));
}

FormulaId ShapeAlgebra::FormulaOfName(const ObjectCell& cell, const std::string& name) {
  FormulaId formula = kAnyValue;
  for (const ObjectCell::NameRule& rule : cell.rules) {
    if (HasName(rule.names, name)) formula = formulas_.Both(formula, rule.value);
  }
  return formula;
}

const ObjectCell::Member* ShapeAlgebra::MemberOfCell(const ObjectCell& cell,
                                                     const std::string& name) {
  for (const ObjectCell::Member& member : cell.members) {
    if (member.name == name) return &member;
  }
  return nullptr;
}

// The members of both, each with what both say of it. False if one that must be there cannot.
bool ShapeAlgebra::MergeMembers(const ObjectCell& a, const ObjectCell& b, ObjectCell* both) {
  uint32_t num_required = 0;
  const auto add = [&](ObjectCell::Member member) {
    if (formulas_.IsSurelyEmpty(member.value)) {
      if (member.is_required) return false;
      member.value = kNoValue;
    }
    num_required += member.is_required;
    both->members.push_back(std::move(member));
    return true;
  };
  for (ObjectCell::Member member : a.members) {
    const ObjectCell::Member* const other = MemberOfCell(b, member.name);
    member.value = formulas_.Both(member.value,
                                  other != nullptr ? other->value : FormulaOfName(b, member.name));
    member.is_required = member.is_required || (other != nullptr && other->is_required);
    if (!add(std::move(member))) return false;
  }
  for (ObjectCell::Member member : b.members) {
    if (MemberOfCell(a, member.name) != nullptr) continue;
    member.value = formulas_.Both(FormulaOfName(a, member.name), member.value);
    if (!add(std::move(member))) return false;
  }
  both->min = std::max({a.min, b.min, num_required});
  both->max = std::min(a.max, b.max);
  return both->min <= both->max;
}

void ShapeAlgebra::Intersect(const ObjectCell& a, const ObjectCell& b,
                             std::vector<ObjectCell>* cells) {
  // "Some member" of one side may be one that only the other side names: either one of these
  // fulfils it, or a member that nobody names does.
  for (const auto& [cell, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    for (size_t i = 0; i < cell->some.size(); ++i) {
      const ObjectCell::NameRule& rule = cell->some[i];
      std::vector<std::string> names;
      for (const ObjectCell::Member& member : other->members) {
        if (MemberOfCell(*cell, member.name) == nullptr && HasName(rule.names, member.name))
          names.push_back(member.name);
      }
      if (names.empty()) continue;
      ObjectCell unnamed = *cell;
      for (const std::string& name : names) {
        const FormulaId value = FormulaOfName(*cell, name);
        ObjectCell named = *cell;
        named.some.erase(named.some.begin() + static_cast<ptrdiff_t>(i));
        named.members.push_back({name, formulas_.Both(value, rule.value), true});
        Intersect(named, *other, cells);
        unnamed.members.push_back({name, value, false});
      }
      return Intersect(unnamed, *other, cells);
    }
  }
  ObjectCell both;
  if (!MergeMembers(a, b, &both)) return;
  both.rules = a.rules;
  AddNew(&both.rules, b.rules);
  both.some = a.some;
  AddNew(&both.some, b.some);
  const bool is_closed =
      std::any_of(both.rules.begin(), both.rules.end(), [](const ObjectCell::NameRule& rule) {
        return rule.names == ExprStore::kAnything && rule.value == kNoValue;
      });
  if (is_closed && !both.some.empty()) return;
  AddUncontained(std::move(both), cells);
}

// Whether the cell surely has all objects of the other.
bool ShapeAlgebra::Contains(const ObjectCell& cell, const ObjectCell& other) {
  if (other.min < cell.min || other.max > cell.max) return false;
  const auto has = [](const auto& list, const auto& value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  for (const ObjectCell::NameRule& rule : cell.rules) {
    if (!has(other.rules, rule)) return false;
  }
  for (const ObjectCell::NameRule& rule : cell.some) {
    if (!has(other.some, rule)) return false;
  }
  size_t at = 0;  // both mostly have their members in the same order
  for (const ObjectCell::Member& member : cell.members) {
    const ObjectCell::Member* same = nullptr;
    for (size_t i = 0; i < other.members.size() && same == nullptr; ++i) {
      ++num_compared_;
      if (other.members[at].name == member.name) same = &other.members[at];
      at = at + 1 < other.members.size() ? at + 1 : 0;
    }
    if (same == nullptr || (member.is_required && !same->is_required) ||
        !formulas_.Implies(same->value, member.value)) {
      return false;
    }
  }
  if (cell.rules.empty() && cell.some.empty()) return true;
  return std::all_of(
      other.members.begin(), other.members.end(),
      [&](const ObjectCell::Member& member) { return MemberOfCell(cell, member.name) != nullptr; });
}

// False if it is seen at once that the cell does not have all objects of the other. The other
// must ask of a name all that the cell asks of it.
bool ShapeAlgebra::MayContain(const ObjectCell& cell, const ObjectCell& other) {
  ++num_compared_;
  if (((cell.bits.named & ~other.bits.named) | (cell.bits.required & ~other.bits.required) |
       (cell.bits.absent & ~other.bits.absent)) != 0)
    return false;
  return Contains(cell, other);
}

void ShapeAlgebra::AddUncontained(ObjectCell cell, std::vector<ObjectCell>* cells) {
  cell.bits = {};
  for (const ObjectCell::Member& member : cell.members) {
    const uint64_t bit = uint64_t{1} << (absl::HashOf(member.name) % 64);
    cell.bits.named |= bit;
    if (member.is_required) cell.bits.required |= bit;
    if (member.value == kNoValue) cell.bits.absent |= bit;
  }
  for (const ObjectCell& other : *cells) {
    if (MayContain(other, cell)) return;
  }
  std::erase_if(*cells, [&](const ObjectCell& other) { return MayContain(cell, other); });
  cells->push_back(std::move(cell));
}

// The cells of the complement of a union: those that are in the complement of each cell.
template <typename Cell>
std::vector<Cell> ShapeAlgebra::ComplementAll(const std::vector<Cell>& cells) {
  std::vector<Cell> result = {Cell()};
  for (const Cell& cell : cells) {
    result = IntersectAll(result, Complement(cell));
    if (!status_.ok()) return {};
  }
  return result;
}

Shape ShapeAlgebra::Complement(const Shape& shape) {
  return {!shape.has_null,
          !shape.has_true,
          !shape.has_false,
          ComplementAll(shape.numbers),
          ComplementAll(shape.strings),
          ComplementAll(shape.arrays),
          ComplementAll(shape.objects)};
}

std::vector<NumberCell> ShapeAlgebra::Complement(const NumberCell& cell) {
  using Kind = NumberCell::Kind;
  std::vector<NumberCell> result;
  if (cell.kind == Kind::kWhole) result.push_back({.kind = Kind::kWithFraction});
  if (cell.kind == Kind::kWithFraction) result.push_back({.kind = Kind::kWhole});
  if (cell.min) result.push_back({.max = NumberBound{cell.min->value, !cell.min->is_exclusive}});
  if (cell.max) result.push_back({.min = NumberBound{cell.max->value, !cell.max->is_exclusive}});
  for (const Decimal& divisor : cell.multiple_of) result.push_back({.not_multiple_of = {divisor}});
  for (const Decimal& divisor : cell.not_multiple_of) result.push_back({.multiple_of = {divisor}});
  return result;
}

std::vector<StringCell> ShapeAlgebra::Complement(const StringCell& cell) {
  std::vector<StringCell> result;
  const auto add_other_than = [&](ExprId content) {
    result.push_back({.content = store_.And(store_.Not(content), AnyJsonText(&store_))});
  };
  if (!cell.texts.empty()) {
    add_other_than(ContentOf(cell));
    return result;
  }
  if (cell.min > 0) result.push_back({.max = cell.min - 1});
  if (cell.max != kUnbounded) result.push_back({.min = cell.max + 1});
  if (cell.content != ExprStore::kAnything) add_other_than(cell.content);
  return result;
}

std::vector<ArrayCell> ShapeAlgebra::Complement(const ArrayCell& cell) {
  std::vector<ArrayCell> result;
  if (cell.min > 0) result.push_back({.max = cell.min - 1});
  if (cell.max != kUnbounded) result.push_back({.min = cell.max + 1});
  for (size_t i = 0; i < cell.prefix.size(); ++i) {
    if (cell.prefix[i] == kAnyValue) continue;
    ArrayCell other = {.prefix = std::vector<FormulaId>(i + 1, kAnyValue),
                       .min = static_cast<uint32_t>(i + 1)};
    other.prefix[i] = formulas_.Not(cell.prefix[i]);
    result.push_back(std::move(other));
  }
  if (cell.rest == kNoValue) {
    result.push_back({.min = static_cast<uint32_t>(cell.prefix.size() + 1)});
  } else if (cell.rest != kAnyValue) {
    if (!cell.prefix.empty())
      Fail(absl::UnimplementedError("the complement of items behind prefixItems"));
    result.push_back({.contains = {{formulas_.Not(cell.rest)}}});
  }
  for (const ArrayCell::Contains& contains : cell.contains) {
    if (contains.min == 1) {
      result.push_back({.rest = formulas_.Not(contains.value)});
    } else if (contains.min > 1) {
      result.push_back({.contains = {{contains.value, 0, contains.min - 1}}});
    }
    if (contains.max != kUnbounded)
      result.push_back({.contains = {{contains.value, contains.max + 1, kUnbounded}}});
  }
  if (cell.is_unique) Fail(absl::UnimplementedError("the complement of uniqueItems"));
  return result;
}

std::vector<ObjectCell> ShapeAlgebra::Complement(const ObjectCell& cell) {
  std::vector<ObjectCell> result;
  uint32_t num_required = 0;
  for (const ObjectCell::Member& member : cell.members) {
    num_required += member.is_required;
    if (member.value != kAnyValue) {
      result.push_back({.members = {{member.name, formulas_.Not(member.value), true}}, .min = 1});
    }
    if (member.is_required) result.push_back({.members = {{member.name, kNoValue, false}}});
  }
  for (const ObjectCell::NameRule& rule : cell.rules) {
    if (rule.value == kAnyValue) continue;
    ObjectCell other = {.some = {{rule.names, formulas_.Not(rule.value)}}, .min = 1};
    // The rule does not hold for members with a name.
    for (const ObjectCell::Member& member : cell.members)
      other.members.push_back({member.name, kAnyValue, false});
    result.push_back(std::move(other));
  }
  for (const ObjectCell::NameRule& rule : cell.some) {
    ObjectCell other = {.rules = {{rule.names, formulas_.Not(rule.value)}}};
    for (const ObjectCell::Member& member : cell.members)
      other.members.push_back({member.name, kAnyValue, false});
    result.push_back(std::move(other));
  }
  if (cell.min > num_required) result.push_back({.max = cell.min - 1});
  if (cell.max != kUnbounded) result.push_back({.min = cell.max + 1});
  return result;
}

}  // namespace quire

#include "server/grammar/schema/value_rules.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/grammar/expr/text_list.h"
#include "server/grammar/schema/json_spelling.h"
#include "server/grammar/schema/member_chain.h"
#include "server/grammar/schema/number_expr.h"

namespace quire {

namespace {

// Texts of this many scalars are written into the expression that has them, not called.
constexpr size_t kMaxInlineScalars = 16;
// Rules of which each must be fulfilled by a member: each set of them has texts of its own.
constexpr size_t kMaxSome = 3;
// Formulas that items must be of, how many items of one, and rules that count them.
constexpr size_t kMaxContains = 3;
constexpr uint32_t kMaxContained = 20;
constexpr size_t kMaxContainStates = 100, kMaxContainRules = 3'000;

bool IsShort(const Shape& shape) {
  size_t num_texts = shape.numbers.size();
  for (const NumberCell& cell : shape.numbers) {
    if (!cell.min || !cell.max || !(cell.min->value == cell.max->value)) return false;
  }
  for (const StringCell& cell : shape.strings) {
    if (cell.texts.empty()) return false;
    num_texts += cell.texts.size();
  }
  return shape.arrays.empty() && shape.objects.empty() && num_texts <= kMaxInlineScalars;
}

}  // namespace

ValueRules::ValueRules(Grammar* grammar, SchemaShapes* shapes, bool has_white_space)
    : grammar_(*grammar),
      store_(grammar->store),
      shapes_(*shapes),
      space_(has_white_space ? WhiteSpace(&store_) : ExprStore::kEmpty),
      comma_(store_.Concat(store_.Byte(','), space_)),
      colon_(store_.Concat(store_.Byte(':'), space_)) {
  for (const ExprId text : {AnyJsonText(&store_), FreeJsonText(&store_, 0, kUnbounded)}) {
    grammar_.landmarks.push_back(store_.Concat(text, store_.Byte('"')));
  }
}

RuleId ValueRules::RuleOf(FormulaId formula) {
  const auto [entry, is_new] = rules_.try_emplace(formula, 0);
  if (is_new) {
    entry->second = grammar_.AddRule();
    waiting_.push_back(formula);
  }
  return entry->second;
}

absl::Status ValueRules::Finish() {
  while (!waiting_.empty() && status_.ok() && shapes_.status().ok() && !store_.overflowed()) {
    const FormulaId formula = waiting_.back();
    waiting_.pop_back();
    const ExprId texts = TextsOf(shapes_.ShapeOf(formula));
    if (!status_.ok()) {
      return absl::Status(status_.code(),
                          absl::StrCat(shapes_.PlaceOf(formula), ": ", status_.message()));
    }
    grammar_.rules[rules_[formula]] = texts;
  }
  if (!shapes_.status().ok()) return shapes_.status();
  if (store_.overflowed()) return absl::ResourceExhaustedError("the schema is too large");
  return status_;
}

ExprId ValueRules::ValueOf(FormulaId formula) {
  if (formula == kNoValue) return ExprStore::kNothing;
  if (formula != kAnyValue) {
    const Shape& shape = shapes_.ShapeOf(formula);
    if (IsShort(shape)) return TextsOf(shape);
  }
  return store_.Rule(RuleOf(formula));
}

ExprId ValueRules::TextsOf(const Shape& shape) {
  std::vector<ExprId> texts;
  if (shape.has_null) texts.push_back(store_.Literal("null"));
  if (shape.has_true) texts.push_back(store_.Literal("true"));
  if (shape.has_false) texts.push_back(store_.Literal("false"));
  std::string error;
  for (const NumberCell& cell : shape.numbers) texts.push_back(NumberExpr(&store_, cell, &error));
  if (!error.empty()) Fail(absl::UnimplementedError(error));
  for (const StringCell& cell : shape.strings) texts.push_back(Quoted(&store_, StringOf(cell)));
  // Copies: making rules may move the shapes.
  const std::vector<ArrayCell> arrays = shape.arrays;
  const std::vector<ObjectCell> objects = shape.objects;
  for (const ArrayCell& cell : arrays) texts.push_back(ArrayOf(cell));
  for (const ObjectCell& cell : objects) texts.push_back(ObjectOf(cell));
  return store_.Or(texts);
}

ExprId ValueRules::StringOf(const StringCell& cell) {
  // With a pattern, the spelling must be the canonical one, in which the pattern is written.
  if (cell.texts.empty() && cell.content == ExprStore::kAnything)
    return FreeJsonText(&store_, cell.min, cell.max);
  return shapes_.algebra().ContentOf(cell);
}

ExprId ValueRules::Bracketed(char open, ExprId content, bool may_be_empty, char close) {
  const ExprId inside = store_.Concat(content, space_);
  return store_.Concat({store_.Byte(static_cast<uint8_t>(open)), space_,
                        may_be_empty ? store_.Optional(inside) : inside,
                        store_.Byte(static_cast<uint8_t>(close))});
}

ExprId ValueRules::ArrayOf(const ArrayCell& cell) {
  const bool may_be_empty =
      cell.min == 0 && std::all_of(cell.contains.begin(), cell.contains.end(),
                                   [](const auto& one) { return one.min == 0; });
  if (cell.max == 0)
    return may_be_empty ? Bracketed('[', ExprStore::kNothing, true, ']') : ExprStore::kNothing;
  return Bracketed('[', cell.contains.empty() ? ItemsOf(cell) : ContainingItems(cell), may_be_empty,
                   ']');
}

// At least one item, and as many as the cell allows.
ExprId ValueRules::ItemsOf(const ArrayCell& cell) {
  if (cell.is_unique && cell.max > 1) {
    Fail(absl::UnimplementedError(
        "uniqueItems is not supported; leave it out, or set maxItems to 1"));
    return ExprStore::kNothing;
  }
  const uint32_t num_prefix = std::min(static_cast<uint32_t>(cell.prefix.size()), cell.max);
  // Behind the prefix: any number of further ones.
  ExprId items = ExprStore::kEmpty;
  const ExprId rest = ValueOf(cell.rest);
  if (cell.max > num_prefix && rest != ExprStore::kNothing) {
    const uint32_t min = cell.min > num_prefix ? cell.min - num_prefix : 0;
    const uint32_t max = cell.max == kUnbounded ? kUnbounded : cell.max - num_prefix;
    if (num_prefix > 0) {
      items = store_.Repeat(store_.Concat(comma_, rest), min, max);
    } else {
      items = store_.Concat(rest, store_.Repeat(store_.Concat(comma_, rest), min == 0 ? 0 : min - 1,
                                                max == kUnbounded ? max : max - 1));
    }
  } else if (cell.min > num_prefix || num_prefix == 0) {
    return ExprStore::kNothing;
  }
  for (uint32_t i = num_prefix; i-- > 0;) {
    const ExprId item = store_.Concat(ValueOf(cell.prefix[i]), items);
    if (i == 0) return item;
    items = store_.Concat(comma_, item);
    if (i >= cell.min) items = store_.Optional(items);
  }
  return items;
}

// With items of which some must be of formulas: row by row, by the number of items and, for each
// formula, of the items that are of it, as far as the numbers matter. Several readings of one text
// do no harm.
ExprId ValueRules::ContainingItems(const ArrayCell& cell) {
  const uint32_t num_items = cell.max == kUnbounded
                                 ? std::max(cell.min, static_cast<uint32_t>(cell.prefix.size()))
                                 : cell.max;
  // A state has a count for each formula.
  std::vector<std::vector<uint32_t>> states = {{}};
  for (const ArrayCell::Contains& contains : cell.contains) {
    const uint32_t most = contains.max == kUnbounded ? contains.min : contains.max + 1;
    std::vector<std::vector<uint32_t>> longer;
    for (uint32_t count = 0; count <= std::min(most, kMaxContained + 1); ++count) {
      for (const std::vector<uint32_t>& state : states) {
        longer.push_back(state);
        longer.back().push_back(count);
      }
    }
    states = std::move(longer);
    if (most > kMaxContained || states.size() > kMaxContainStates) states.clear();
  }
  if (states.empty() || cell.contains.size() > kMaxContains || cell.is_unique ||
      (size_t{num_items} + 1) * states.size() > kMaxContainRules) {
    Fail(absl::UnimplementedError(
        absl::StrCat("contains beside uniqueItems, with large numbers, or more than ", kMaxContains,
                     " of them; oneOf and not of arrays ask for it, too")));
    return ExprStore::kNothing;
  }
  // A rule for each number of items and state: they may call themselves.
  std::vector<std::map<std::vector<uint32_t>, RuleId>> after(num_items + 1);
  for (auto& row : after) {
    for (const std::vector<uint32_t>& state : states) row[state] = grammar_.AddRule();
  }
  const auto next = [&](uint32_t items, const std::vector<uint32_t>& state, bool is_first) {
    if (cell.max != kUnbounded && items == cell.max) return ExprStore::kNothing;
    std::vector<ExprId> texts;
    for (size_t set = 0; set < size_t{1} << cell.contains.size(); ++set) {
      FormulaId value = cell.item(items);
      std::vector<uint32_t> counts = state;
      for (size_t i = 0; i < counts.size(); ++i) {
        const ArrayCell::Contains& contains = cell.contains[i];
        const uint32_t most = contains.max == kUnbounded ? contains.min : contains.max + 1;
        const bool is_of_it = ((set >> i) & 1) != 0;
        if (is_of_it) {
          value = shapes_.Both(value, contains.value);
          counts[i] = std::min(counts[i] + 1, most);
        } else if (contains.max != kUnbounded) {
          value = shapes_.Both(value, shapes_.Not(contains.value));
        }
      }
      const uint32_t more = std::min(items + 1, num_items);
      texts.push_back(store_.Concat({is_first ? ExprStore::kEmpty : comma_, ValueOf(value),
                                     store_.Rule(after[more][counts])}));
    }
    return store_.Or(texts);
  };
  for (uint32_t items = 0; items <= num_items; ++items) {
    for (const std::vector<uint32_t>& state : states) {
      bool may_end = items >= cell.min;
      for (size_t i = 0; i < state.size(); ++i) {
        may_end = may_end && state[i] >= cell.contains[i].min && state[i] <= cell.contains[i].max;
      }
      const ExprId end = may_end ? ExprStore::kEmpty : ExprStore::kNothing;
      grammar_.rules[after[items][state]] = store_.Or(end, next(items, state, false));
    }
  }
  return next(0, std::vector<uint32_t>(cell.contains.size()), true);
}

// A name between quotes: in `names`, and none of the members that the cell names.
ExprId ValueRules::NameOf(ExprId names, const ObjectCell& cell) {
  std::vector<std::string> named;
  for (const ObjectCell::Member& member : cell.members) {
    if (shapes_.algebra().HasName(names, member.name)) named.push_back(JsonSpelling(member.name));
  }
  const ExprId other = store_.Not(OneOfTexts(&store_, {named.begin(), named.end()}));
  const ExprId name = store_.And({{names, other, AnyJsonText(&store_)}});
  const auto [entry, is_new] = name_rules_.try_emplace(name, 0);
  if (is_new) entry->second = grammar_.AddRule(Quoted(&store_, name));
  return store_.Rule(entry->second);
}

// A member without a name in the cell that fulfils all of `fulfilled`. For each set of rules: the
// names that are in just these, with values of all of them.
ExprId ValueRules::OtherMember(const ObjectCell& cell,
                               const std::vector<ObjectCell::NameRule>& fulfilled) {
  struct Region {
    ExprId names;
    FormulaId value;
  };
  std::vector<Region> regions = {{ExprStore::kAnything, kAnyValue}};
  for (const ObjectCell::NameRule& rule : fulfilled) {
    Region& region = regions[0];
    region = {store_.And(region.names, rule.names), shapes_.Both(region.value, rule.value)};
  }
  for (const ObjectCell::NameRule& rule : cell.rules) {
    std::vector<Region> split;
    for (const Region& region : regions) {
      const ExprId outside = store_.And(region.names, store_.Not(rule.names));
      const ExprId inside = store_.And(region.names, rule.names);
      const FormulaId value = shapes_.Both(region.value, rule.value);
      if (value == region.value) {
        split.push_back(region);
        continue;
      }
      if (outside != ExprStore::kNothing) split.push_back({outside, region.value});
      if (inside != ExprStore::kNothing && value != kNoValue) split.push_back({inside, value});
    }
    regions = std::move(split);
    if (regions.size() > 64) {
      Fail(absl::ResourceExhaustedError("too many patternProperties that apply to the same names"));
      return ExprStore::kNothing;
    }
  }
  std::vector<ExprId> members;
  for (const Region& region : regions) {
    const ExprId value = ValueOf(region.value);
    if (value != ExprStore::kNothing)
      members.push_back(store_.Concat({NameOf(region.names, cell), colon_, value}));
  }
  return store_.Or(members);
}

// Members without a name in the cell of which, for each rule in `some`, one fulfils it: by the set
// of rules that are still to be fulfilled, the next member that fulfils some of these.
ExprId ValueRules::OtherMembersThatFulfil(const ObjectCell& cell, ExprId other) {
  if (cell.some.size() > kMaxSome) {
    Fail(absl::UnimplementedError(
        absl::StrCat("more than ", kMaxSome, " patternProperties of which each must be broken")));
    return ExprStore::kNothing;
  }
  const size_t num_sets = size_t{1} << cell.some.size();
  std::vector<ExprId> member(num_sets), members(num_sets);
  for (size_t set = 1; set < num_sets; ++set) {
    std::vector<ObjectCell::NameRule> fulfilled;
    for (size_t i = 0; i < cell.some.size(); ++i) {
      if ((set >> i) & 1) fulfilled.push_back(cell.some[i]);
    }
    member[set] = OtherMember(cell, fulfilled);
  }
  const ExprId before = store_.Star(store_.Concat(other, comma_));
  const ExprId after = store_.Star(store_.Concat(comma_, other));
  for (size_t set = 1; set < num_sets; ++set) {
    std::vector<ExprId> next;
    for (size_t part = set; part > 0; part = (part - 1) & set) {
      const ExprId rest = part == set ? after : store_.Concat(comma_, members[set ^ part]);
      next.push_back(store_.Concat(member[part], rest));
    }
    members[set] = store_.Concat(before, store_.Or(next));
  }
  return members[num_sets - 1];
}

ExprId ValueRules::ObjectOf(const ObjectCell& cell) {
  MemberChain chain(&grammar_, comma_, cell.min, cell.max);
  for (const ObjectCell::Member& member : cell.members) {
    const ExprId value = ValueOf(member.value);
    const ExprId name = Quoted(&store_, store_.Literal(JsonSpelling(member.name)));
    const ExprId text = value == ExprStore::kNothing ? value : store_.Concat({name, colon_, value});
    if (!chain.Add(text, member.is_required)) return ExprStore::kNothing;
  }
  const ExprId other = OtherMember(cell, {});
  const ExprId some = cell.some.empty() ? ExprStore::kEmpty : OtherMembersThatFulfil(cell, other);
  bool may_be_empty = false;
  const ExprId members = chain.Finish(other, some, &may_be_empty);
  if (!chain.status().ok()) Fail(chain.status());
  return Bracketed('{', members, may_be_empty, '}');
}

}  // namespace quire

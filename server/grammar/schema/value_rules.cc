#include "server/grammar/schema/value_rules.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/grammar/schema/json_spelling.h"
#include "server/grammar/schema/member_chain.h"
#include "server/grammar/schema/number_expr.h"

namespace quire {

namespace {

// Texts of this many scalars are written into the expression that has them, not called.
constexpr size_t kMaxInlineScalars = 16;

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

// With items of which some must be of a formula: row by row from the last item back, by the number
// of items and of those that are of it, as far as the numbers matter. Several readings of one text
// do no harm.
ExprId ValueRules::ContainingItems(const ArrayCell& cell) {
  const ArrayCell::Contains& contains = cell.contains[0];
  const uint32_t num_items = cell.max == kUnbounded ? cell.min : cell.max;
  const uint32_t num_has = contains.max == kUnbounded ? contains.min : contains.max + 1;
  if (cell.contains.size() > 1 || !cell.prefix.empty() || cell.is_unique || num_items > 100 ||
      num_has > 20) {
    Fail(absl::UnimplementedError(
        "contains beside prefixItems, uniqueItems, another contains or large numbers"));
    return ExprStore::kNothing;
  }
  const ExprId has = ValueOf(shapes_.Both(cell.rest, contains.value));
  const ExprId other =
      ValueOf(contains.max == kUnbounded ? cell.rest
                                         : shapes_.Both(cell.rest, shapes_.Not(contains.value)));
  // A rule for each pair of numbers: they may call themselves.
  std::vector<std::vector<RuleId>> after(num_items + 1, std::vector<RuleId>(num_has + 1));
  for (std::vector<RuleId>& row : after) {
    for (RuleId& rule : row) rule = grammar_.AddRule();
  }
  const auto next = [&](uint32_t items, uint32_t of_it, bool is_first) {
    const ExprId sign = is_first ? ExprStore::kEmpty : comma_;
    if (cell.max != kUnbounded && items == cell.max) return ExprStore::kNothing;
    const uint32_t more = std::min(items + 1, num_items);
    const ExprId with =
        store_.Concat({sign, has, store_.Rule(after[more][std::min(of_it + 1, num_has)])});
    return store_.Or(with, store_.Concat({sign, other, store_.Rule(after[more][of_it])}));
  };
  for (uint32_t items = 0; items <= num_items; ++items) {
    for (uint32_t of_it = 0; of_it <= num_has; ++of_it) {
      const bool may_end = items >= cell.min && of_it >= contains.min && of_it <= contains.max;
      const ExprId end = may_end ? ExprStore::kEmpty : ExprStore::kNothing;
      grammar_.rules[after[items][of_it]] = store_.Or(end, next(items, of_it, false));
    }
  }
  return next(0, 0, true);
}

// A name between quotes: in `names`, and none of the members that the cell names.
ExprId ValueRules::NameOf(ExprId names, const ObjectCell& cell) {
  std::vector<ExprId> named;
  for (const ObjectCell::Member& member : cell.members) {
    if (shapes_.algebra().HasName(names, member.name))
      named.push_back(store_.Literal(JsonSpelling(member.name)));
  }
  const ExprId name = store_.And({{names, store_.Not(store_.Or(named)), AnyJsonText(&store_)}});
  const auto [entry, is_new] = name_rules_.try_emplace(name, 0);
  if (is_new) entry->second = grammar_.AddRule(Quoted(&store_, name));
  return store_.Rule(entry->second);
}

// A member without a name in the cell, and if `some` is given, one that fulfils it. For each set of
// rules: the names that are in just these, with values of all of them.
ExprId ValueRules::OtherMember(const ObjectCell& cell, const ObjectCell::NameRule* some) {
  struct Region {
    ExprId names;
    FormulaId value;
  };
  std::vector<Region> regions = {{ExprStore::kAnything, kAnyValue}};
  if (some != nullptr) regions = {{some->names, some->value}};
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

ExprId ValueRules::ObjectOf(const ObjectCell& cell) {
  MemberChain chain(&grammar_, comma_, cell.min, cell.max);
  for (const ObjectCell::Member& member : cell.members) {
    const ExprId value = ValueOf(member.value);
    const ExprId name = Quoted(&store_, store_.Literal(JsonSpelling(member.name)));
    const ExprId text = value == ExprStore::kNothing ? value : store_.Concat({name, colon_, value});
    if (!chain.Add(text, member.is_required)) return ExprStore::kNothing;
  }
  if (cell.some.size() > 1) {
    Fail(absl::UnimplementedError(
        "several patternProperties of which each must be broken by some member"));
  }
  const ExprId other = OtherMember(cell, nullptr);
  const ExprId some = cell.some.empty() ? ExprStore::kEmpty : OtherMember(cell, &cell.some[0]);
  bool may_be_empty = false;
  const ExprId members = chain.Finish(other, some, &may_be_empty);
  if (!chain.status().ok()) Fail(chain.status());
  return Bracketed('{', members, may_be_empty, '}');
}

}  // namespace quire

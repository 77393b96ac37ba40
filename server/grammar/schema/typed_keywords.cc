// The keywords for values of one type: numbers, strings, arrays, objects. Values of other types
// fulfil them.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/grammar/regex/regex_expr.h"
#include "server/grammar/schema/json_spelling.h"
#include "server/grammar/schema/schema_shapes.h"
#include "server/grammar/schema/string_formats.h"

namespace quire {

namespace {

std::optional<Decimal> DecimalOf(const JsonTree& value) {
  if (value.kind == JsonTree::Kind::kInteger) return ParseDecimal(absl::StrCat(value.integer));
  if (value.kind == JsonTree::Kind::kFloat) return ParseDecimal(value.text);
  return std::nullopt;
}

bool IsTrue(const JsonTree* value) {
  return value != nullptr && value->kind == JsonTree::Kind::kBool && value->integer != 0;
}

}  // namespace

std::optional<NumberBound> SchemaShapes::Bound(const JsonTree& schema, const std::string& key) {
  const JsonTree* const value = MemberOf(schema, key);
  if (value == nullptr || value->kind == JsonTree::Kind::kBool) return std::nullopt;
  const std::optional<Decimal> decimal = DecimalOf(*value);
  if (!decimal) {
    Invalid(schema, key, "must be a number of at most 400 digits");
    return std::nullopt;
  }
  return NumberBound{*decimal, key.starts_with("exclusive")};
}

// A count; JSON writers at times make it 5.0.
uint32_t SchemaShapes::Count(const JsonTree& schema, const std::string& key, uint32_t otherwise) {
  const JsonTree* const value = MemberOf(schema, key);
  if (value == nullptr) return otherwise;
  const std::optional<Decimal> decimal = DecimalOf(*value);
  if (!decimal || !decimal->is_integer() || decimal->is_negative) {
    Invalid(schema, key, "must be a whole number that is not negative");
    return otherwise;
  }
  // Nobody writes that many: it is no bound, or one that cannot be reached.
  if (decimal->whole.size() > 9) return kUnbounded - 1;
  return static_cast<uint32_t>(std::stoul(decimal->whole));
}

Shape SchemaShapes::Numbers(const JsonTree& schema) {
  NumberCell cell;
  ShapeAlgebra& algebra = algebra_;
  Shape shape = AnyShape();
  const auto restrict_to = [&](NumberCell one) {
    shape.numbers = algebra.Intersect(shape, {.numbers = {std::move(one)}}).numbers;
  };
  for (const char* const key : {"minimum", "exclusiveMinimum"}) {
    if (std::optional<NumberBound> bound = Bound(schema, key)) {
      // Draft 4: exclusiveMinimum says how minimum is meant.
      if (IsTrue(MemberOf(schema, "exclusiveMinimum"))) bound->is_exclusive = true;
      restrict_to({.min = bound});
    }
  }
  for (const char* const key : {"maximum", "exclusiveMaximum"}) {
    if (std::optional<NumberBound> bound = Bound(schema, key)) {
      if (IsTrue(MemberOf(schema, "exclusiveMaximum"))) bound->is_exclusive = true;
      restrict_to({.max = bound});
    }
  }
  if (const JsonTree* const value = MemberOf(schema, "multipleOf"); value != nullptr) {
    const std::optional<Decimal> divisor = DecimalOf(*value);
    if (!divisor || divisor->is_negative || divisor->is_zero()) {
      Invalid(schema, "multipleOf", "must be a number greater than 0");
    } else {
      restrict_to({.multiple_of = {*divisor}});
    }
  }
  return shape;
}

ExprId SchemaShapes::PatternOf(const JsonTree& schema, const std::string& key,
                               const std::string& pattern, bool whole) {
  const auto [entry, is_new] = patterns_.try_emplace({pattern, whole}, ExprStore::kAnything);
  if (!is_new) return entry->second;
  const absl::StatusOr<ExprId> expr = RegexExpr(
      &store_, pattern, {.spelling = Spelling::kJsonString, .whole = whole, .limits = {}});
  if (expr.ok()) return entry->second = *expr;
  Fail(schema, key,
       absl::Status(expr.status().code(),
                    absl::StrCat("\"", pattern, "\": ", expr.status().message())));
  return ExprStore::kAnything;
}

Shape SchemaShapes::Strings(const JsonTree& schema) {
  StringCell cell;
  cell.min = Count(schema, "minLength", 0);
  cell.max = Count(schema, "maxLength", kUnbounded);
  if (const JsonTree* const pattern = MemberOf(schema, "pattern"); pattern != nullptr) {
    if (pattern->is_text()) {
      cell.content = PatternOf(schema, "pattern", pattern->text, /*whole=*/false);
    } else {
      Invalid(schema, "pattern", "must be a string");
    }
  }
  // Other formats are annotations: what is not in the standard's list asks for nothing.
  if (const JsonTree* const format = MemberOf(schema, "format");
      format != nullptr && format->is_text()) {
    if (const char* const pattern = PatternOfFormat(format->text); pattern != nullptr) {
      cell.content = store_.And(cell.content, PatternOf(schema, "format", pattern, /*whole=*/true));
    }
  }
  Shape shape = AnyShape();
  shape.strings.clear();
  if (cell.min <= cell.max && cell.content != ExprStore::kNothing) shape.strings = {cell};
  return shape;
}

Shape SchemaShapes::Arrays(const JsonTree& schema) {
  ArrayCell cell;
  const JsonTree* const prefix = MemberOf(schema, "prefixItems");
  const JsonTree* items = MemberOf(schema, "items");
  const JsonTree* list = prefix;
  if (items != nullptr && items->is_list()) {
    list = items;
    items = MemberOf(schema, "additionalItems");
  }
  if (list != nullptr && !list->is_list())
    Invalid(schema, "prefixItems", "must be a list of schemas");
  if (list != nullptr) {
    for (const JsonTree& item : list->items) cell.prefix.push_back(FormulaOf(item));
  }
  if (items != nullptr) cell.rest = FormulaOf(*items);
  cell.min = Count(schema, "minItems", 0);
  cell.max = Count(schema, "maxItems", kUnbounded);
  if (const JsonTree* const contains = MemberOf(schema, "contains");
      contains != nullptr && document_.draft() >= 6) {
    const ArrayCell::Contains one = {FormulaOf(*contains), Count(schema, "minContains", 1),
                                     Count(schema, "maxContains", kUnbounded)};
    if (one.min > 0 || one.max != kUnbounded) cell.contains = {one};
  }
  cell.is_unique = IsTrue(MemberOf(schema, "uniqueItems"));
  Shape shape = AnyShape();
  // With itself: items that nothing can be end the array.
  shape.arrays = algebra_.Intersect({.arrays = {cell}}, {.arrays = {{}}}).arrays;
  return shape;
}

void SchemaShapes::AddDeclared(const JsonTree& schema, ObjectCell* cell) {
  const JsonTree* const properties = MemberOf(schema, "properties");
  if (properties == nullptr) return;
  if (!properties->is_object()) Invalid(schema, "properties", "must be an object");
  absl::flat_hash_map<absl::string_view, size_t> known;
  for (size_t i = 0; i < properties->keys.size(); ++i) {
    const FormulaId value = FormulaOf(properties->items[i]);
    const auto [entry, is_new] = known.try_emplace(properties->keys[i], cell->members.size());
    if (is_new) {
      cell->members.push_back({properties->keys[i], value, false});
    } else {
      cell->members[entry->second].value = value;
    }
  }
}

// Adds patternProperties, additionalProperties and propertyNames: to members that are declared at
// once, for others as rules.
void SchemaShapes::AddNameRules(const JsonTree& schema, ObjectCell* cell) {
  std::vector<ExprId> patterns;
  if (const JsonTree* const by_pattern = MemberOf(schema, "patternProperties");
      by_pattern != nullptr) {
    if (!by_pattern->is_object()) Invalid(schema, "patternProperties", "must be an object");
    for (size_t i = 0; i < by_pattern->keys.size(); ++i) {
      const ExprId names =
          PatternOf(schema, "patternProperties", by_pattern->keys[i], /*whole=*/false);
      patterns.push_back(names);
      cell->rules.push_back({names, FormulaOf(by_pattern->items[i])});
    }
  }
  if (const JsonTree* const names = MemberOf(schema, "propertyNames");
      names != nullptr && document_.draft() >= 6) {
    std::vector<ExprId> allowed;
    for (const StringCell& one : ShapeOfSub(*names).strings)
      allowed.push_back(algebra_.ContentOf(one));
    const ExprId any = store_.Or(allowed);
    if (any != ExprStore::kAnything) cell->rules.push_back({store_.Not(any), kNoValue});
  }
  for (ObjectCell::Member& member : cell->members) {
    member.value = Both(member.value, algebra_.FormulaOfName(*cell, member.name));
  }
  if (const JsonTree* const others = MemberOf(schema, "additionalProperties"); others != nullptr) {
    const FormulaId value = FormulaOf(*others);
    if (value != kAnyValue) cell->rules.push_back({store_.Not(store_.Or(patterns)), value});
  }
}

void SchemaShapes::AddRequired(const JsonTree& schema, ObjectCell* cell) {
  const JsonTree* const required = MemberOf(schema, "required");
  if (required == nullptr || required->kind == JsonTree::Kind::kBool) return;  // a boolean: draft 3
  if (!required->is_list()) Invalid(schema, "required", "must be a list of names");
  absl::flat_hash_map<absl::string_view, size_t> known;
  for (size_t i = 0; i < cell->members.size(); ++i) known[cell->members[i].name] = i;
  for (const JsonTree& name : required->items) {
    if (!name.is_text()) {
      Invalid(schema, "required", "must be a list of names");
      return;
    }
    if (const auto found = known.find(name.text); found != known.end()) {
      cell->members[found->second].is_required = true;
      continue;
    }
    const FormulaId value = algebra_.FormulaOfName(*cell, name.text);
    cell->members.push_back({name.text, value, true});
    known[name.text] = cell->members.size() - 1;
  }
}

Shape SchemaShapes::Objects(const JsonTree& schema) {
  ObjectCell cell;
  AddDeclared(schema, &cell);
  AddNameRules(schema, &cell);
  AddRequired(schema, &cell);
  cell.min = Count(schema, "minProperties", 0);
  cell.max = Count(schema, "maxProperties", kUnbounded);
  Shape shape = AnyShape();
  // With any object: members that nothing can be are left out, or the cell is.
  shape.objects = algebra_.Intersect({.objects = {cell}}, {.objects = {{}}}).objects;
  return shape;
}

}  // namespace quire

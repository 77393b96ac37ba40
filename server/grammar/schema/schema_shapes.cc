#include "server/grammar/schema/schema_shapes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "server/grammar/schema/json_spelling.h"

namespace quire {

namespace {

// Schemas inside schemas whose shapes need one another: anyOf, $ref and so on, not members.
constexpr int kMaxShapeDepth = 100;
// Beyond this, whether two schemas exclude each other counts as unknown.
constexpr int kMaxEmptinessDepth = 12;

}  // namespace

SchemaShapes::SchemaShapes(ExprStore* store, const SchemaDocument* document,
                           const SchemaLimits& limits)
    : store_(*store),
      document_(*document),
      limits_(limits),
      algebra_(store, this, limits.max_cells) {
  CHECK(Intern({}) == kAnyValue);
  CHECK(Intern({{LiteralKind::kNotFormula, nullptr, kAnyValue}}) == kNoValue);
}

void SchemaShapes::Fail(const JsonTree& schema, absl::string_view key, const absl::Status& status) {
  if (!status_.ok()) return;
  const std::string path = document_.PathOf(schema);
  status_ = absl::Status(status.code(),
                         absl::StrCat(path, key.empty() ? "" : "/", key, ": ", status.message()));
}

void SchemaShapes::FailAt(FormulaId formula, const absl::Status& status) {
  if (!status_.ok()) return;
  status_ = absl::Status(status.code(), absl::StrCat(PlaceOf(formula), ": ", status.message()));
}

void SchemaShapes::Invalid(const JsonTree& schema, absl::string_view key, absl::string_view must) {
  Fail(schema, key, absl::InvalidArgumentError(must));
}

std::string SchemaShapes::PlaceOf(FormulaId formula) const {
  for (const Literal& literal : literals_[formula]) {
    if (literal.tree != nullptr) return document_.PathOf(*literal.tree);
    if (literal.formula != formula) return PlaceOf(literal.formula);
  }
  return "#";
}

FormulaId SchemaShapes::Intern(std::vector<Literal> literals) {
  const auto [entry, is_new] =
      formulas_.try_emplace(literals, static_cast<FormulaId>(literals_.size()));
  if (is_new) {
    literals_.push_back(std::move(literals));
    shapes_.push_back(nullptr);
    is_open_.push_back(false);
    is_unknown_.push_back(false);
  }
  return entry->second;
}

FormulaId SchemaShapes::FormulaOf(const JsonTree& schema) {
  const JsonTree* at = &schema;
  for (int i = 0; i < kMaxShapeDepth; ++i) {
    if (at->kind == JsonTree::Kind::kBool) return at->integer != 0 ? kAnyValue : kNoValue;
    if (!at->is_object()) {
      Invalid(*at, "", "a schema must be an object or a boolean");
      return kNoValue;
    }
    if (at->keys.empty()) return kAnyValue;
    // A schema that only refers to another is that one.
    if (at->keys.size() != 1 || at->keys[0] != "$ref" || !at->items[0].is_text()) break;
    const absl::StatusOr<const JsonTree*> target = document_.Resolve(*at, at->items[0].text);
    if (!target.ok()) {
      Fail(*at, "$ref", target.status());
      return kNoValue;
    }
    at = *target;
  }
  if (at->keys.size() == 1 && at->keys[0] == "type" && at->items[0].is_text()) {
    at = small_.try_emplace(at->items[0].text, at).first->second;
  }
  return Intern({{LiteralKind::kSchema, at, 0}});
}

// Whether it is one of a list of constants.
bool SchemaShapes::IsList(FormulaId formula) const {
  return std::any_of(literals_[formula].begin(), literals_[formula].end(),
                     [](const Literal& literal) {
                       if (literal.kind != LiteralKind::kSchema)
                         return literal.kind == LiteralKind::kConstant;
                       return MemberOf(*literal.tree, "enum") != nullptr ||
                              MemberOf(*literal.tree, "const") != nullptr;
                     });
}

bool SchemaShapes::Implies(FormulaId a, FormulaId b) {
  if (a == b || b == kAnyValue || a == kNoValue) return true;
  return std::all_of(literals_[b].begin(), literals_[b].end(), [&](const Literal& literal) {
    return std::find(literals_[a].begin(), literals_[a].end(), literal) != literals_[a].end();
  });
}

FormulaId SchemaShapes::Both(FormulaId a, FormulaId b) {
  if (Implies(a, b)) return a;
  if (Implies(b, a)) return b;
  // Lists are filtered at once, so that equal ones have one formula.
  for (const auto& [list, other] : {std::pair(a, b), std::pair(b, a)}) {
    if (!IsList(list) || is_open_[list] || is_open_[other] || depth_ > kMaxEmptinessDepth ||
        !status_.ok())
      continue;
    const Shape* const list_shape = TryShapeOf(list);
    const Shape* const other_shape = list_shape != nullptr ? TryShapeOf(other) : nullptr;
    if (other_shape == nullptr) break;
    const Shape all = *list_shape;
    const Shape left = algebra_.Intersect(all, Shape(*other_shape));
    if (left == all) return list;
    if (left == Shape()) return kNoValue;
    break;
  }
  std::vector<Literal> literals;
  // In this order, since members are written in the order of the first schema, then of the second.
  literals = literals_[a];
  for (const Literal& literal : literals_[b]) {
    if (std::find(literals.begin(), literals.end(), literal) == literals.end())
      literals.push_back(literal);
  }
  if (literals_.size() >= limits_.max_formulas) {
    if (status_.ok()) {
      status_ = absl::ResourceExhaustedError(absl::StrCat(
          "the schema combines more than ", limits_.max_formulas, " pairs of schemas"));
    }
    return kNoValue;
  }
  return Intern(std::move(literals));
}

FormulaId SchemaShapes::Not(FormulaId formula) {
  const std::vector<Literal>& literals = literals_[formula];
  if (literals.size() == 1 && literals[0].kind == LiteralKind::kNotFormula)
    return literals[0].formula;
  return Intern({{LiteralKind::kNotFormula, nullptr, formula}});
}

bool SchemaShapes::IsSurelyEmpty(FormulaId formula) {
  if (formula == kNoValue) return true;
  // A schema by itself is hardly ever empty, and looking costs as much as the schema is large.
  if (literals_[formula].size() < 2 && shapes_[formula] == nullptr) return false;
  if (is_open_[formula] || depth_ > kMaxEmptinessDepth || !status_.ok()) return false;
  const Shape* const shape = TryShapeOf(formula);
  return shape != nullptr && !shape->has_null && !shape->has_true && !shape->has_false &&
         shape->num_cells() == 0;
}

const Shape* SchemaShapes::TryShapeOf(FormulaId formula) {
  if (shapes_[formula] == nullptr && is_unknown_[formula]) return nullptr;
  const bool was_trying = std::exchange(is_trying_, true);
  const bool had_met_open = std::exchange(met_open_, false);
  const Shape& shape = ShapeOf(formula);
  is_trying_ = was_trying;
  if (!std::exchange(met_open_, had_met_open)) return &shape;
  is_unknown_[formula] = true;
  return nullptr;
}

const Shape& SchemaShapes::ShapeOf(FormulaId formula) {
  static const Shape* const none = new Shape();
  if (shapes_[formula] != nullptr) return *shapes_[formula];
  if (!status_.ok()) return *none;
  const std::vector<Literal> literals = literals_[formula];
  if (is_trying_ && (is_open_[formula] || depth_ > kMaxShapeDepth)) {
    met_open_ = true;
    return *none;
  }
  if (is_open_[formula] || depth_ > kMaxShapeDepth) {
    const absl::Status status = absl::InvalidArgumentError(
        is_open_[formula] ? "the schema contains itself, with no member or item in between"
                          : "too deep");
    FailAt(formula, status);
    return *none;
  }
  is_open_[formula] = true;
  ++depth_;
  Shape shape = AnyShape();
  for (size_t i = 0; i < literals.size() && status_.ok(); ++i) {
    Shape one = ShapeOfLiteral(literals[i]);
    shape = i == 0 ? std::move(one) : algebra_.Intersect(shape, one);
    if (!algebra_.status().ok()) FailAt(formula, algebra_.status());
  }
  --depth_;
  is_open_[formula] = false;
  if (met_open_) return *none;
  shapes_[formula] = std::make_unique<Shape>(std::move(shape));
  return *shapes_[formula];
}

Shape SchemaShapes::ShapeOfLiteral(const Literal& literal) {
  switch (literal.kind) {
    case LiteralKind::kSchema:
      return ShapeOfSchema(*literal.tree);
    case LiteralKind::kConstant:
      return ShapeOfConstant(*literal.tree);
    case LiteralKind::kNotFormula:
      return algebra_.Complement(Shape(ShapeOf(literal.formula)));
  }
  return {};
}

Shape SchemaShapes::ShapeOfConstant(const JsonTree& value) {
  Shape shape;
  switch (value.kind) {
    case JsonTree::Kind::kNull:
      shape.has_null = true;
      break;
    case JsonTree::Kind::kBool:
      (value.integer != 0 ? shape.has_true : shape.has_false) = true;
      break;
    case JsonTree::Kind::kInteger:
    case JsonTree::Kind::kFloat: {
      const std::string text =
          value.kind == JsonTree::Kind::kInteger ? absl::StrCat(value.integer) : value.text;
      const std::optional<Decimal> decimal = ParseDecimal(text);
      if (!decimal) {
        Invalid(value, "", "the number has too many digits");
        break;
      }
      const auto kind = decimal->is_integer() ? NumberCell::Kind::kWhole : NumberCell::Kind::kAny;
      shape.numbers = {{.kind = kind, .min = NumberBound{*decimal}, .max = NumberBound{*decimal}}};
      break;
    }
    case JsonTree::Kind::kText:
      shape.strings = {{.texts = {JsonSpelling(value.text)}}};
      break;
    case JsonTree::Kind::kList: {
      ArrayCell cell = {.rest = kNoValue};
      for (const JsonTree& item : value.items)
        cell.prefix.push_back(Intern({{LiteralKind::kConstant, &item, 0}}));
      cell.min = cell.max = static_cast<uint32_t>(value.items.size());
      shape.arrays = {std::move(cell)};
      break;
    }
    case JsonTree::Kind::kObject: {
      ObjectCell cell = {.rules = {{ExprStore::kAnything, kNoValue}}};
      for (size_t i = 0; i < value.items.size(); ++i) {
        if (MemberOf(value, value.keys[i]) != &value.items[i]) continue;  // the last one counts
        cell.members.push_back(
            {value.keys[i], Intern({{LiteralKind::kConstant, &value.items[i], 0}}), true});
      }
      cell.min = static_cast<uint32_t>(cell.members.size());
      shape.objects = {std::move(cell)};
      break;
    }
    case JsonTree::Kind::kIds:
      Fail(value, "", absl::UnimplementedError("a constant list of more than 512 numbers"));
      break;
  }
  return shape;
}

bool SchemaShapes::AreDisjoint(const Shape& a, const Shape& b) {
  ShapeAlgebra probe(&store_, this, limits_.max_cells);
  const Shape both = probe.Intersect(a, b);
  return probe.status().ok() && !both.has_null && !both.has_true && !both.has_false &&
         both.num_cells() == 0;
}

Shape SchemaShapes::ShapeOfSchema(const JsonTree& schema) {
  if (document_.is_old_draft()) {  // nothing beside $ref counts
    if (const JsonTree* ref = MemberOf(schema, "$ref"); ref != nullptr) return Ref(schema, *ref);
  }
  // In the order of the text: members are written in the order in which they are first named.
  Shape shape = AnyShape();
  for (size_t i = 0; i < schema.keys.size() && status_.ok(); ++i) {
    Shape one = ShapeOfKeyword(schema, schema.keys[i], schema.items[i]);
    if (one == AnyShape()) continue;
    shape = algebra_.Intersect(shape, one);
    if (!algebra_.status().ok()) Fail(schema, schema.keys[i], algebra_.status());
  }
  return shape;
}

}  // namespace quire

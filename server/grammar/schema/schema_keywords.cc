// The keywords that combine schemas, or hold for values of every type.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "server/grammar/schema/schema_shapes.h"

namespace quire {

namespace {

enum class Word : uint8_t {
  kType,
  kEnum,
  kConst,
  kRef,
  kCombined,
  kNot,
  kIf,
  kDependencies,
  kNumbers,
  kStrings,
  kArrays,
  kObjects,
  kRefused
};

// The keywords that ask for something; others are annotations.
const absl::flat_hash_map<absl::string_view, Word>& Words() {
  static const auto* const words = new absl::flat_hash_map<absl::string_view, Word>({
      {"type", Word::kType},
      {"enum", Word::kEnum},
      {"const", Word::kConst},
      {"$ref", Word::kRef},
      {"allOf", Word::kCombined},
      {"anyOf", Word::kCombined},
      {"oneOf", Word::kCombined},
      {"not", Word::kNot},
      {"if", Word::kIf},
      {"dependencies", Word::kDependencies},
      {"dependentRequired", Word::kDependencies},
      {"dependentSchemas", Word::kDependencies},
      {"minimum", Word::kNumbers},
      {"maximum", Word::kNumbers},
      {"exclusiveMinimum", Word::kNumbers},
      {"exclusiveMaximum", Word::kNumbers},
      {"multipleOf", Word::kNumbers},
      {"minLength", Word::kStrings},
      {"maxLength", Word::kStrings},
      {"pattern", Word::kStrings},
      {"format", Word::kStrings},
      {"items", Word::kArrays},
      {"prefixItems", Word::kArrays},
      {"additionalItems", Word::kArrays},
      {"minItems", Word::kArrays},
      {"maxItems", Word::kArrays},
      {"uniqueItems", Word::kArrays},
      {"contains", Word::kArrays},
      {"properties", Word::kObjects},
      {"patternProperties", Word::kObjects},
      {"additionalProperties", Word::kObjects},
      {"required", Word::kObjects},
      {"minProperties", Word::kObjects},
      {"maxProperties", Word::kObjects},
      {"propertyNames", Word::kObjects},
      {"unevaluatedProperties", Word::kRefused},
      {"unevaluatedItems", Word::kRefused},
      {"$dynamicRef", Word::kRefused},
      {"$recursiveRef", Word::kRefused},
      {"extends", Word::kRefused},
      {"disallow", Word::kRefused},
      {"divisibleBy", Word::kRefused},
  });
  return *words;
}

// The first keyword of the schema that is of `word`: the others are read with it.
bool IsFirstOf(Word word, const JsonTree& schema, absl::string_view key) {
  for (const std::string& one : schema.keys) {
    const auto found = Words().find(one);
    if (found != Words().end() && found->second == word) return one == key;
  }
  return false;
}

}  // namespace

Shape SchemaShapes::ShapeOfKeyword(const JsonTree& schema, const std::string& key,
                                   const JsonTree& value) {
  const auto found = Words().find(key);
  if (found == Words().end()) return AnyShape();
  const Word word = found->second;
  // Keywords that came later are annotations in an old draft.
  if ((word == Word::kConst && document_.draft() < 6) ||
      (word == Word::kIf && document_.draft() < 7))
    return AnyShape();
  switch (word) {
    case Word::kType:
      return Type(schema, value);
    case Word::kEnum:
      return Enum(schema, value);
    case Word::kConst:
      return ShapeOfConstant(value);
    case Word::kRef:
      return Ref(schema, value);
    case Word::kCombined:
      return Combined(schema, key, value);
    case Word::kNot:
      return algebra_.Complement(ShapeOfSub(value));
    case Word::kIf:
      return If(schema, value);
    case Word::kDependencies:
      return Dependencies(schema, key, value);
    case Word::kRefused:
      // Without an effect: they allow everything.
      if (value.kind == JsonTree::Kind::kBool && value.integer != 0) return AnyShape();
      Fail(schema, key, absl::UnimplementedError("not supported; leave it out"));
      return AnyShape();
    default:
      break;
  }
  if (!IsFirstOf(word, schema, key)) return AnyShape();
  if (word == Word::kNumbers) return Numbers(schema);
  if (word == Word::kStrings) return Strings(schema);
  return word == Word::kArrays ? Arrays(schema) : Objects(schema);
}

Shape SchemaShapes::Type(const JsonTree& schema, const JsonTree& value) {
  Shape shape;
  const auto add = [&](const JsonTree& name) {
    if (name.is_object()) {  // draft 3
      shape = algebra_.Unite(std::move(shape), ShapeOfSub(name));
      return;
    }
    const Shape any = AnyShape();
    if (name.text == "null") {
      shape.has_null = true;
    } else if (name.text == "boolean") {
      shape.has_true = shape.has_false = true;
    } else if (name.text == "integer" || name.text == "number") {
      const auto kind = name.text == "integer" ? NumberCell::Kind::kWhole : NumberCell::Kind::kAny;
      shape = algebra_.Unite(std::move(shape), {.numbers = {{.kind = kind}}});
    } else if (name.text == "string") {
      shape.strings = any.strings;
    } else if (name.text == "array") {
      shape.arrays = any.arrays;
    } else if (name.text == "object") {
      shape.objects = any.objects;
    } else if (name.text == "any") {  // draft 3
      shape = any;
    } else {
      Invalid(schema, "type",
              absl::StrCat("must be null, boolean, integer, number, string, array or object, not ",
                           ToJson(name)));
    }
  };
  if (value.is_list()) {
    for (const JsonTree& name : value.items) add(name);
  } else {
    add(value);
  }
  return shape;
}

Shape SchemaShapes::Enum(const JsonTree& schema, const JsonTree& value) {
  Shape shape;
  if (value.kind == JsonTree::Kind::kIds) {
    for (const uint32_t id : value.ids) {
      const NumberBound bound = {*ParseDecimal(absl::StrCat(id))};
      shape.numbers.push_back({.kind = NumberCell::Kind::kWhole, .min = bound, .max = bound});
    }
    return shape;
  }
  if (!value.is_list()) Invalid(schema, "enum", "must be a list");
  std::vector<std::string> texts;
  for (const JsonTree& item : value.items) {
    Shape one = ShapeOfConstant(item);
    if (!one.strings.empty()) {  // all at once: there may be thousands
      texts.push_back(std::move(one.strings[0].texts[0]));
      continue;
    }
    shape = algebra_.Unite(std::move(shape), one);
    if (!algebra_.status().ok()) Fail(schema, "enum", algebra_.status());
    if (!status_.ok()) return shape;
  }
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  if (!texts.empty()) shape.strings = {{.texts = std::move(texts)}};
  return shape;
}

Shape SchemaShapes::Ref(const JsonTree& schema, const JsonTree& value) {
  if (!value.is_text()) {
    Invalid(schema, "$ref", "must be a string");
    return {};
  }
  const absl::StatusOr<const JsonTree*> target = document_.Resolve(schema, value.text);
  if (!target.ok()) {
    Fail(schema, "$ref", target.status());
    return {};
  }
  return ShapeOfSub(**target);
}

Shape SchemaShapes::Combined(const JsonTree& schema, const std::string& key,
                             const JsonTree& value) {
  if (!value.is_list() || value.items.empty()) {
    Invalid(schema, key, "must be a list of at least one schema");
    return {};
  }
  std::vector<Shape> shapes;
  shapes.reserve(value.items.size());
  for (const JsonTree& item : value.items) shapes.push_back(ShapeOfSub(item));
  if (!status_.ok()) return {};
  if (key == "oneOf") return OneOf(std::move(shapes));
  Shape shape = std::move(shapes[0]);
  for (size_t i = 1; i < shapes.size() && algebra_.status().ok(); ++i) {
    shape = key == "allOf" ? algebra_.Intersect(shape, shapes[i])
                           : algebra_.Unite(std::move(shape), shapes[i]);
  }
  return shape;
}

// The values of exactly one shape. Shapes without a value in common are simply united; others lose
// what the others have.
Shape SchemaShapes::OneOf(std::vector<Shape> shapes) {
  const size_t count = shapes.size();
  std::vector<std::vector<bool>> overlap(count, std::vector<bool>(count));
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = 0; j < i; ++j)
      overlap[i][j] = overlap[j][i] = !AreDisjoint(shapes[i], shapes[j]);
  }
  Shape result;
  for (size_t i = 0; i < count && algebra_.status().ok(); ++i) {
    Shape own = shapes[i];
    for (size_t j = 0; j < count && algebra_.status().ok(); ++j) {
      if (j == i || !overlap[i][j] || AreDisjoint(own, shapes[j])) continue;
      own = algebra_.Intersect(own, algebra_.Complement(shapes[j]));
    }
    result = algebra_.Unite(std::move(result), own);
  }
  return result;
}

Shape SchemaShapes::If(const JsonTree& schema, const JsonTree& value) {
  const JsonTree* const then_schema = MemberOf(schema, "then");
  const JsonTree* const else_schema = MemberOf(schema, "else");
  if (then_schema == nullptr && else_schema == nullptr) return AnyShape();
  const Shape condition = ShapeOfSub(value);
  Shape holds = condition, fails = algebra_.Complement(condition);
  if (then_schema != nullptr) holds = algebra_.Intersect(holds, ShapeOfSub(*then_schema));
  if (else_schema != nullptr) fails = algebra_.Intersect(fails, ShapeOfSub(*else_schema));
  return algebra_.Unite(std::move(holds), fails);
}

// For each member: it is absent, or what depends on it holds.
Shape SchemaShapes::Dependencies(const JsonTree& schema, const std::string& key,
                                 const JsonTree& value) {
  if (!value.is_object()) {
    Invalid(schema, key, "must be an object");
    return {};
  }
  Shape shape = AnyShape();
  for (size_t i = 0; i < value.keys.size() && status_.ok() && algebra_.status().ok(); ++i) {
    const JsonTree& needed = value.items[i];
    Shape absent = AnyShape();
    absent.objects = {{.members = {{value.keys[i], kNoValue, false}}}};
    Shape present = AnyShape();
    if (needed.is_list() || needed.is_text()) {
      ObjectCell cell;
      absl::flat_hash_set<absl::string_view> names;
      const auto add = [&](const JsonTree& name) {
        if (!name.is_text()) Invalid(needed, "", "must be a list of names");
        if (names.insert(name.text).second) cell.members.push_back({name.text, kAnyValue, true});
      };
      if (needed.is_text()) add(needed);
      for (const JsonTree& name : needed.items) add(name);
      cell.min = static_cast<uint32_t>(cell.members.size());
      present.objects = {std::move(cell)};
    } else {
      present = ShapeOfSub(needed);
    }
    const Shape has_it = {.objects = {{.members = {{value.keys[i], kAnyValue, true}}, .min = 1}}};
    for (ObjectCell& cell : algebra_.Intersect(has_it, present).objects)
      absent.objects.push_back(std::move(cell));
    shape = algebra_.Intersect(shape, absent);
  }
  return shape;
}

}  // namespace quire

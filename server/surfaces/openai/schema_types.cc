#include "server/surfaces/openai/schema_types.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace quire {

namespace {

// The most references, and schemas within each other, on one way.
constexpr int kMaxDepth = 32;
// Schemas looked at for one function: references can make few bytes many.
constexpr int kMaxLooks = 10'000;
// A search among this many names counts as one look.
constexpr size_t kNamesPerLook = 64;

// Nothing was said of the type.
constexpr JsonTypes kUnsaid = 0;

JsonTypes TypeNamed(const JsonTree& name) {
  for (const auto& [text, types] :
       {std::pair("string", kJsonText), std::pair("integer", kJsonInteger),
        std::pair("number", JsonTypes{kJsonNumber | kJsonInteger}), std::pair("boolean", kJsonBool),
        std::pair("null", kJsonNull), std::pair("object", kJsonObject),
        std::pair("array", kJsonList)}) {
    if (name.is_text() && name.text == text) return types;
  }
  return kAnyJson;
}

JsonTypes TypeOfValue(const JsonTree& value) {
  switch (value.kind) {
    case JsonTree::Kind::kNull:
      return kJsonNull;
    case JsonTree::Kind::kBool:
      return kJsonBool;
    case JsonTree::Kind::kInteger:
      return kJsonInteger;
    case JsonTree::Kind::kFloat:
      return kJsonNumber;
    case JsonTree::Kind::kText:
      return kJsonText;
    case JsonTree::Kind::kList:
    case JsonTree::Kind::kIds:
      return kJsonList;
    case JsonTree::Kind::kObject:
      break;
  }
  return kJsonObject;
}

// The types that both sides allow. A schema that contradicts itself has said nothing that could be
// used.
JsonTypes Both(JsonTypes a, JsonTypes b) {
  if (a == kUnsaid || b == kUnsaid) return a | b;
  const JsonTypes both = a & b;
  return both == 0 ? kAnyJson : both;
}

class SchemaReader {
 public:
  explicit SchemaReader(const JsonTree& root) : root_(root) {}

  JsonTypes TypesOf(const JsonTree& schema, int depth);
  // The properties of an object of this schema.
  void AddProperties(const JsonTree& schema, int depth, ToolParameters* parameters);

 private:
  bool Look(int depth) { return depth < kMaxDepth && ++num_looks_ < kMaxLooks; }
  const JsonTree* Referred(const JsonTree& reference);
  // One of these holds.
  JsonTypes TypesOfAny(const JsonTree& schemas, int depth);
  JsonTypes TypesOfAll(const JsonTree& schemas, int depth);
  static JsonTypes TypesByKeyword(const JsonTree& schema);

  const JsonTree& root_;
  int num_looks_ = 0;
};

// The schema that a reference such as "#/$defs/Place" names; null if it is not there.
const JsonTree* SchemaReader::Referred(const JsonTree& reference) {
  if (!reference.is_text() || (reference.text != "#" && !reference.text.starts_with("#/"))) {
    return nullptr;
  }
  const JsonTree* found = &root_;
  if (reference.text == "#") return found;
  for (const absl::string_view part : absl::StrSplit(reference.text.substr(2), '/')) {
    const std::string key =
        absl::StrReplaceAll(part, {{"~1", "/"}, {"~0", "~"}, {"%24", "$"}, {"%20", " "}});
    num_looks_ += static_cast<int>(found->keys.size() / kNamesPerLook);
    found = found->is_object() ? found->Find(key) : nullptr;
    if (found == nullptr) return nullptr;
  }
  return found;
}

JsonTypes SchemaReader::TypesOfAny(const JsonTree& schemas, int depth) {
  JsonTypes any = kUnsaid;
  for (const JsonTree& schema : schemas.items) {
    const JsonTypes types = TypesOf(schema, depth);
    any |= types == kUnsaid ? kAnyJson : types;
  }
  return any;
}

JsonTypes SchemaReader::TypesOfAll(const JsonTree& schemas, int depth) {
  JsonTypes all = kUnsaid;
  for (const JsonTree& schema : schemas.items) all = Both(all, TypesOf(schema, depth));
  return all;
}

// The type that the other keywords of a schema are for, when the schema has no type.
JsonTypes SchemaReader::TypesByKeyword(const JsonTree& schema) {
  for (const auto& [key, type] :
       {std::pair("properties", kJsonObject), std::pair("additionalProperties", kJsonObject),
        std::pair("items", kJsonList), std::pair("prefixItems", kJsonList)}) {
    if (schema.Find(key) != nullptr) return type;
  }
  return kUnsaid;
}

JsonTypes SchemaReader::TypesOf(const JsonTree& schema, int depth) {
  if (!Look(depth)) return kAnyJson;
  if (!schema.is_object()) return kUnsaid;  // true is a schema, too
  JsonTypes types = kUnsaid;
  if (const JsonTree* type = schema.Find("type")) {
    if (!type->is_list()) types = TypeNamed(*type);
    for (const JsonTree& one : type->items) types |= TypeNamed(one);
  }
  if (const JsonTree* reference = schema.Find("$ref")) {
    const JsonTree* referred = Referred(*reference);
    types = Both(types, referred == nullptr ? kAnyJson : TypesOf(*referred, depth + 1));
  }
  if (const JsonTree* all = schema.Find("allOf")) types = Both(types, TypesOfAll(*all, depth + 1));
  for (const char* key : {"anyOf", "oneOf"}) {
    if (const JsonTree* any = schema.Find(key)) types = Both(types, TypesOfAny(*any, depth + 1));
  }
  JsonTypes values = kUnsaid;
  if (const JsonTree* list = schema.Find("enum")) {
    for (const JsonTree& value : list->items) values |= TypeOfValue(value);
  }
  for (size_t i = 0; i < schema.keys.size(); ++i) {
    if (schema.keys[i] == "const") values = TypeOfValue(schema.items[i]);  // null, too
  }
  types = Both(types, values);
  if (types == kUnsaid) types = TypesByKeyword(schema);
  const JsonTree* is_nullable = schema.Find("nullable");
  if (types != kUnsaid && is_nullable != nullptr && is_nullable->integer != 0) types |= kJsonNull;
  return types;
}

void SchemaReader::AddProperties(const JsonTree& schema, int depth, ToolParameters* parameters) {
  if (!schema.is_object() || !Look(depth)) return;
  if (const JsonTree* reference = schema.Find("$ref")) {
    if (const JsonTree* found = Referred(*reference)) AddProperties(*found, depth + 1, parameters);
  }
  for (const char* key : {"allOf", "anyOf", "oneOf"}) {
    const JsonTree* parts = schema.Find(key);
    if (parts == nullptr) continue;
    for (const JsonTree& part : parts->items) AddProperties(part, depth + 1, parameters);
  }
  if (const JsonTree* others = schema.Find("additionalProperties")) {
    const JsonTypes types = TypesOf(*others, depth + 1);
    if (types != kUnsaid) parameters->others = types;
  }
  const JsonTree* properties = schema.Find("properties");
  if (properties == nullptr || !properties->is_object()) return;
  for (size_t i = 0; i < properties->items.size(); ++i) {
    const JsonTypes types = TypesOf(properties->items[i], depth + 1);
    parameters->types[properties->keys[i]] = types == kUnsaid ? kJsonText : types;
  }
}

}  // namespace

ToolParameters ParametersOf(const JsonTree& schema) {
  ToolParameters parameters;
  SchemaReader(schema).AddProperties(schema, 0, &parameters);
  return parameters;
}

}  // namespace quire

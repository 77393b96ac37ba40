#include "server/text/chat/json_values.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/values/error.h"

namespace quire {
namespace {

using jinja::Dict;
using jinja::List;
using jinja::Value;

Value TextValue(std::string_view text) { return Value(jinja::Text(text, jinja::Origin::kUser)); }

Value ListValue(std::vector<Value> items) {
  return Value(std::make_shared<const List>(jinja::ListKind::kList, std::move(items)));
}

Value IdsValue(const std::vector<uint32_t>& ids) {
  std::vector<Value> items;
  items.reserve(ids.size());
  for (const uint32_t id : ids) items.emplace_back(jinja::Integer{id});
  return ListValue(std::move(items));
}

absl::Status Spend(size_t num_values, std::string_view text, JsonBudget* budget) {
  if (num_values > budget->num_values_left) return jinja::Error(kTooManyJsonValues);
  budget->num_values_left -= num_values;
  const size_t num_steps = num_values + text.size() / jinja::kBytesPerStep;
  if (budget->fuel == nullptr || budget->fuel->Burn(num_steps)) return absl::OkStatus();
  return budget->fuel->status();
}

// Integers that an int64 does not hold are floats in the tree, which knows how they were written.
Value NumberValue(const JsonTree& tree) {
  uint64_t integer = 0;
  if (absl::SimpleAtoi(tree.text, &integer)) return jinja::Integer{integer};
  return tree.number;
}

absl::StatusOr<Value> DictOf(const JsonTree& tree, JsonBudget* budget) {
  Dict dict;
  for (size_t i = 0; i < tree.items.size(); ++i) {
    RETURN_IF_ERROR(Spend(1, tree.keys[i], budget));
    ASSIGN_OR_RETURN(Value value, ToValue(tree.items[i], budget));
    dict.Set(TextValue(tree.keys[i]), std::move(value));
  }
  return Value(std::make_shared<const Dict>(std::move(dict)));
}

}  // namespace

absl::StatusOr<Value> ToValue(const JsonTree& tree, JsonBudget* budget) {
  RETURN_IF_ERROR(Spend(1 + tree.ids.size(), tree.text, budget));
  switch (tree.kind) {
    case JsonTree::Kind::kNull:
      return Value(jinja::None{});
    case JsonTree::Kind::kBool:
      return Value(tree.integer != 0);
    case JsonTree::Kind::kInteger:
      return Value(jinja::Integer{tree.integer});
    case JsonTree::Kind::kFloat:
      return NumberValue(tree);
    case JsonTree::Kind::kText:
      return TextValue(tree.text);
    case JsonTree::Kind::kList:
      return ToListValue(tree.items, budget);
    case JsonTree::Kind::kIds:
      return IdsValue(tree.ids);
    case JsonTree::Kind::kObject:
      break;
  }
  return DictOf(tree, budget);
}

absl::StatusOr<Value> ToListValue(const std::vector<JsonTree>& items, JsonBudget* budget) {
  std::vector<Value> values;
  values.reserve(items.size());
  for (const JsonTree& item : items) {
    ASSIGN_OR_RETURN(Value value, ToValue(item, budget));
    values.push_back(std::move(value));
  }
  return ListValue(std::move(values));
}

absl::StatusOr<Value> ParseJsonValue(std::string_view text, JsonBudget* budget, size_t max_depth) {
  size_t num_values_left = budget->num_values_left;
  absl::StatusOr<JsonTree> tree = ParseJsonTree(text, &num_values_left, max_depth);
  if (!tree.ok()) return jinja::Error(tree.status().message());
  return ToValue(*tree, budget);
}

}  // namespace quire

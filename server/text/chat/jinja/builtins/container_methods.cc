// The methods of list, tuple and range, and of dict, that do not change them.
#include <algorithm>
#include <iterator>
#include <vector>

#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/builtins/attributes.h"
#include "server/text/chat/jinja/values/error.h"
#include "server/text/chat/jinja/values/operators.h"

namespace quire::jinja {
namespace {

using Result = absl::StatusOr<Value>;

Result ListIndex(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(arguments, {"value"}, 1));
  const std::vector<Value>& items = self.list()->items;
  for (size_t i = 0; i < items.size(); ++i) {
    ASSIGN_OR_RETURN(const bool equal, CheckedEquals(runtime, items[i], *bound[0]));
    if (equal) return Value::FromSize(i);
  }
  return Error("the list does not contain it");
}

Result ListCount(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(arguments, {"value"}, 1));
  size_t count = 0;
  for (const Value& item : self.list()->items) {
    ASSIGN_OR_RETURN(const bool equal, CheckedEquals(runtime, item, *bound[0]));
    if (equal) ++count;
  }
  return Value::FromSize(count);
}

Result ListCopy(Runtime&, const Value& self, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind(arguments, {}).status());
  return self;
}

Result DictItems(Runtime& runtime, const Value& self, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind(arguments, {}).status());
  std::vector<Value> items;
  items.reserve(self.dict()->size());
  for (const auto& [key, value] : self.dict()->entries()) {
    ASSIGN_OR_RETURN(Value item, runtime.NewList(ListKind::kTuple, {key, value}));
    items.push_back(std::move(item));
  }
  return runtime.NewList(ListKind::kDictItems, std::move(items));
}

Result DictKeys(Runtime& runtime, const Value& self, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind(arguments, {}).status());
  std::vector<Value> keys;
  keys.reserve(self.dict()->size());
  for (const Dict::Entry& entry : self.dict()->entries()) keys.push_back(entry.first);
  return runtime.NewList(ListKind::kDictKeys, std::move(keys));
}

Result DictValues(Runtime& runtime, const Value& self, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind(arguments, {}).status());
  std::vector<Value> values;
  values.reserve(self.dict()->size());
  for (const Dict::Entry& entry : self.dict()->entries()) values.push_back(entry.second);
  return runtime.NewList(ListKind::kDictValues, std::move(values));
}

Result DictGet(Runtime&, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind(arguments, {"key", "default"}, 1));
  RETURN_IF_ERROR(CheckHashable(*bound[0]));
  if (const Value* value = self.dict()->Find(*bound[0])) return *value;
  return bound[1] != nullptr ? *bound[1] : Value(None{});
}

Result DictCopy(Runtime&, const Value& self, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind(arguments, {}).status());
  return self;
}

constexpr Method kListMethods[] = {{"copy", ListCopy}, {"count", ListCount}, {"index", ListIndex}};

constexpr Method kDictMethods[] = {{"copy", DictCopy},
                                   {"get", DictGet},
                                   {"items", DictItems},
                                   {"keys", DictKeys},
                                   {"values", DictValues}};

template <size_t size>
const Method* Find(const Method (&methods)[size], std::string_view name) {
  const Method* found = std::find_if(std::begin(methods), std::end(methods),
                                     [name](const Method& method) { return method.name == name; });
  return found == std::end(methods) ? nullptr : found;
}

}  // namespace

const Method* FindListMethod(std::string_view name) { return Find(kListMethods, name); }

const Method* FindDictMethod(std::string_view name) { return Find(kDictMethods, name); }

}  // namespace quire::jinja

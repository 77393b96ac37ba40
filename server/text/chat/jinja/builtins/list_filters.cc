// Filters on sequences and dicts as a whole: joining, sorting, the first, the largest.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/builtins/attributes.h"
#include "server/text/chat/jinja/builtins/filters.h"
#include "server/text/chat/jinja/builtins/text_operations.h"
#include "server/text/chat/jinja/values/error.h"
#include "server/text/chat/jinja/values/operators.h"
#include "server/text/chat/jinja/values/print.h"

namespace quire::jinja {
namespace {

using Result = absl::StatusOr<Value>;
using Items = std::shared_ptr<const List>;

bool IsGiven(const Value* value) { return value != nullptr && !value->is_none(); }

// The item, or its attribute, as sort and the like compare it: text without case unless told
// otherwise.
Result SortKey(Runtime& runtime, const Value& item, const Value* attribute, bool case_sensitive) {
  Value key = item;
  if (IsGiven(attribute)) {
    ASSIGN_OR_RETURN(key, GetPath(runtime, item, *attribute, nullptr));
  }
  if (case_sensitive || key.text() == nullptr) return key;
  ASSIGN_OR_RETURN(Text lower, MapCase(runtime, *key.text(), CaseMapping::kLower));
  return runtime.NewText(std::move(lower));
}

// The keys of "a,b": one for each attribute.
Result SortKeys(Runtime& runtime, const Value& item, const Value* attributes, bool case_sensitive) {
  if (!IsGiven(attributes) || attributes->text() == nullptr) {
    return SortKey(runtime, item, attributes, case_sensitive);
  }
  const Text comma(",", Origin::kTemplate);
  ASSIGN_OR_RETURN(const std::vector<Value> names, Split(runtime, *attributes->text(), &comma, -1));
  std::vector<Value> keys;
  for (const Value& name : names) {
    ASSIGN_OR_RETURN(Value key, SortKey(runtime, item, &name, case_sensitive));
    keys.push_back(std::move(key));
  }
  return runtime.NewList(ListKind::kList, std::move(keys));
}

struct Keyed {
  Value key;
  Value item;
};

// Orders keys as jinja2's sort does, which has them in lists: what is equal needs no order of its
// own.
absl::StatusOr<int> CompareListed(Runtime& runtime, const Value& a, const Value& b) {
  ASSIGN_OR_RETURN(const bool equal, CheckedEquals(runtime, a, b));
  return equal ? 0 : Compare(runtime, a, b);
}

// Stable; the first error of a comparison ends it.
Result SortByKey(Runtime& runtime, std::vector<Keyed> keyed, bool reverse, bool keys_are_listed) {
  const auto& compare = keys_are_listed ? CompareListed : Compare;
  absl::Status status;
  std::stable_sort(keyed.begin(), keyed.end(), [&](const Keyed& a, const Keyed& b) {
    if (!status.ok()) return false;
    const absl::StatusOr<int> order =
        compare(runtime, reverse ? b.key : a.key, reverse ? a.key : b.key);
    if (!order.ok()) status = order.status();
    return order.ok() && *order < 0;
  });
  RETURN_IF_ERROR(status);
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
  return runtime.NewList(ListKind::kList, std::move(items));
}

Result SortFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind(arguments, {"reverse", "case_sensitive", "attribute"}));
  ASSIGN_OR_RETURN(const bool reverse, bound.BoolOr(0, false));
  ASSIGN_OR_RETURN(const bool case_sensitive, bound.BoolOr(1, false));
  ASSIGN_OR_RETURN(const Items list, Iterate(runtime, input));
  std::vector<Keyed> keyed;
  for (const Value& item : list->items) {
    ASSIGN_OR_RETURN(Value key, SortKeys(runtime, item, bound[2], case_sensitive));
    keyed.push_back({std::move(key), item});
  }
  return SortByKey(runtime, std::move(keyed), reverse, /*keys_are_listed=*/true);
}

Result DictSortFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind(arguments, {"case_sensitive", "by", "reverse"}));
  ASSIGN_OR_RETURN(const bool case_sensitive, bound.BoolOr(0, false));
  ASSIGN_OR_RETURN(const Text by, bound.TextOr(1, Text("key", Origin::kTemplate)));
  ASSIGN_OR_RETURN(const bool reverse, bound.BoolOr(2, false));
  if (input.is_undefined()) return UndefinedError(input);
  if (input.dict() == nullptr) {
    return Error("needs a dict, not a ", input.type_name());
  }
  if (by.bytes() != "key" && by.bytes() != "value") {
    return Error("argument 'by' must be 'key' or 'value'");
  }
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : input.dict()->entries()) {
    ASSIGN_OR_RETURN(Value item, runtime.NewList(ListKind::kTuple, {key, value}));
    ASSIGN_OR_RETURN(Value sort_key,
                     SortKey(runtime, by.bytes() == "key" ? key : value, nullptr, case_sensitive));
    keyed.push_back({std::move(sort_key), std::move(item)});
  }
  return SortByKey(runtime, std::move(keyed), reverse, /*keys_are_listed=*/false);
}

template <int sign>
Result ExtremeFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind(arguments, {"case_sensitive", "attribute"}));
  ASSIGN_OR_RETURN(const bool case_sensitive, bound.BoolOr(0, false));
  ASSIGN_OR_RETURN(const Items list, Iterate(runtime, input));
  Value best = Value::UndefinedNamed("min and max of an empty sequence are undefined");
  std::optional<Value> best_key;
  for (const Value& item : list->items) {
    ASSIGN_OR_RETURN(Value key, SortKey(runtime, item, bound[1], case_sensitive));
    if (best_key.has_value()) {
      ASSIGN_OR_RETURN(const int order, Compare(runtime, key, *best_key));
      if (order * sign <= 0) continue;
    }
    best = item;
    best_key = std::move(key);
  }
  return best;
}

Result UniqueFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind(arguments, {"case_sensitive", "attribute"}));
  ASSIGN_OR_RETURN(const bool case_sensitive, bound.BoolOr(0, false));
  ASSIGN_OR_RETURN(const Items list, Iterate(runtime, input));
  Dict seen;
  std::vector<Value> items;
  for (const Value& item : list->items) {
    ASSIGN_OR_RETURN(Value key, SortKey(runtime, item, bound[1], case_sensitive));
    RETURN_IF_ERROR(CheckHashable(key));
    RETURN_IF_ERROR(runtime.Charge(key.text() != nullptr ? key.weight() : seen.size()));
    if (seen.Find(key) != nullptr) continue;
    seen.Set(std::move(key), Value(None{}));
    items.push_back(item);
  }
  return runtime.NewList(ListKind::kGenerator, std::move(items));
}

Result SumFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind(arguments, {"attribute", "start"}));
  ASSIGN_OR_RETURN(const Items list, Iterate(runtime, input));
  Value sum = bound[1] != nullptr ? *bound[1] : Value(Integer{0});
  for (const Value& item : list->items) {
    Value term = item;
    if (IsGiven(bound[0])) {
      ASSIGN_OR_RETURN(term, GetPath(runtime, item, *bound[0], nullptr));
    }
    ASSIGN_OR_RETURN(sum, Apply(runtime, BinaryOperator::kAdd, sum, term));
  }
  return sum;
}

Result JoinFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(arguments, {"d", "attribute"}));
  ASSIGN_OR_RETURN(Items list, Iterate(runtime, input));
  Text separator;
  if (bound[0] != nullptr) {
    ASSIGN_OR_RETURN(separator, ToText(runtime, *bound[0]));
  }
  if (IsGiven(bound[1])) {
    std::vector<Value> attributes;
    for (const Value& item : list->items) {
      ASSIGN_OR_RETURN(Value attribute, GetPath(runtime, item, *bound[1], nullptr));
      attributes.push_back(std::move(attribute));
    }
    list = std::make_shared<const List>(ListKind::kList, std::move(attributes));
  }
  ASSIGN_OR_RETURN(Text result, Join(runtime, separator, list->items));
  return Value(std::move(result));
}

Result FirstFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind(arguments, {}).status());
  ASSIGN_OR_RETURN(const Items list, Iterate(runtime, input));
  return list->items.empty()
             ? Value::UndefinedNamed("the first item of an empty sequence is undefined")
             : list->items.front();
}

Result LastFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind(arguments, {}).status());
  RETURN_IF_ERROR(Length(input).status());
  ASSIGN_OR_RETURN(const Items list, Iterate(runtime, input));
  return list->items.empty()
             ? Value::UndefinedNamed("the last item of an empty sequence is undefined")
             : list->items.back();
}

Result LengthFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind(arguments, {}).status());
  if (input.text() != nullptr) RETURN_IF_ERROR(runtime.Charge(input.weight()));
  ASSIGN_OR_RETURN(const size_t length, Length(input));
  return Value::FromSize(length);
}

Result ListFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind(arguments, {}).status());
  ASSIGN_OR_RETURN(const Items list, Iterate(runtime, input));
  return runtime.NewList(ListKind::kList, list->items);
}

Result ReverseFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind(arguments, {}).status());
  if (input.text() != nullptr) {
    return GetSlice(runtime, input, None{}, None{}, Value(Integer{-1}));
  }
  ASSIGN_OR_RETURN(const Items list, Iterate(runtime, input));
  std::vector<Value> items(list->items.rbegin(), list->items.rend());
  // Python can only reverse a generator by making it a list.
  const bool was_generator = input.list() != nullptr && !input.list()->has_length();
  return runtime.NewList(was_generator ? ListKind::kList : ListKind::kGenerator, std::move(items));
}

Result ItemsFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind(arguments, {}).status());
  if (input.is_undefined()) return runtime.NewList(ListKind::kGenerator, {});
  if (input.dict() == nullptr) {
    return Error("needs a dict, not a ", input.type_name());
  }
  ASSIGN_OR_RETURN(const Value items, FindDictMethod("items")->call(runtime, input, arguments));
  return runtime.NewList(ListKind::kGenerator, items.list()->items);
}

Result BatchFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind(arguments, {"linecount", "fill_with"}, 1));
  ASSIGN_OR_RETURN(const Integer size, bound.IntegerOr(0, 1));
  if (size < 1) return Error("argument 'linecount' must be at least 1");
  ASSIGN_OR_RETURN(const Items list, Iterate(runtime, input));
  std::vector<Value> batches;
  for (size_t begin = 0; begin < list->items.size();) {
    const size_t end = begin + static_cast<size_t>(std::min<Integer>(
                                   size, static_cast<Integer>(list->items.size() - begin)));
    std::vector<Value> batch(list->items.begin() + static_cast<ptrdiff_t>(begin),
                             list->items.begin() + static_cast<ptrdiff_t>(end));
    while (IsGiven(bound[1]) && static_cast<Integer>(batch.size()) < size) {
      RETURN_IF_ERROR(runtime.Charge(1));
      batch.push_back(*bound[1]);
    }
    ASSIGN_OR_RETURN(Value value, runtime.NewList(ListKind::kList, std::move(batch)));
    batches.push_back(std::move(value));
    begin = end;
  }
  return runtime.NewList(ListKind::kGenerator, std::move(batches));
}

Result DefaultFilter(Runtime&, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind(arguments, {"default_value", "boolean"}));
  ASSIGN_OR_RETURN(const bool boolean, bound.BoolOr(1, false));
  if (!input.is_undefined() && !(boolean && !IsTrue(input))) return input;
  return bound[0] != nullptr ? *bound[0] : Value(Text());
}

constexpr Filter kListFilters[] = {
    {"batch", BatchFilter},     {"count", LengthFilter},      {"d", DefaultFilter},
    {"default", DefaultFilter}, {"dictsort", DictSortFilter}, {"first", FirstFilter},
    {"items", ItemsFilter},     {"join", JoinFilter},         {"last", LastFilter},
    {"length", LengthFilter},   {"list", ListFilter},         {"max", ExtremeFilter<1>},
    {"min", ExtremeFilter<-1>}, {"reverse", ReverseFilter},   {"sort", SortFilter},
    {"sum", SumFilter},         {"unique", UniqueFilter},
};

}  // namespace

absl::Span<const Filter> ListFilters() { return kListFilters; }

}  // namespace quire::jinja

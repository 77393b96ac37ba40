// Filters that apply another filter or test to every item: map, select, reject, selectattr,
// rejectattr, attr.
#include <vector>

#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/builtins/attributes.h"
#include "server/text/chat/jinja/builtins/filters.h"
#include "server/text/chat/jinja/values/error.h"
#include "server/text/chat/jinja/values/operators.h"

namespace quire::jinja {
namespace {

// A call of a filter or test, and perhaps a path of attributes.
constexpr size_t kItemSteps = 4;

using Result = absl::StatusOr<Value>;
using Items = std::shared_ptr<const List>;

absl::StatusOr<std::string_view> NameArgument(const Arguments& arguments, size_t index) {
  if (index < arguments.positional.size() && arguments.positional[index].text() != nullptr) {
    return arguments.positional[index].text()->bytes();
  }
  return Error("needs a name, as a str, as its first argument");
}

Arguments WithoutFirst(const Arguments& arguments, size_t count) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<ptrdiff_t>(count),
                         arguments.positional.end());
  rest.keyword = arguments.keyword;
  return rest;
}

Result MapAttribute(Runtime& runtime, const List& list, const Arguments& arguments) {
  // Only keyword arguments come here; Bind refuses all except these two.
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind(arguments, {"attribute", "default"}, 1));
  const Value* fallback = bound[1] != nullptr && !bound[1]->is_none() ? bound[1] : nullptr;
  std::vector<Value> mapped;
  for (const Value& item : list.items) {
    ASSIGN_OR_RETURN(Value value, GetPath(runtime, item, *bound[0], fallback));
    mapped.push_back(std::move(value));
  }
  return runtime.NewList(ListKind::kGenerator, std::move(mapped));
}

Result MapFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (!IsTrue(input)) return runtime.NewList(ListKind::kGenerator, {});
  ASSIGN_OR_RETURN(const Items list, Iterate(runtime, input));
  if (arguments.positional.empty()) return MapAttribute(runtime, *list, arguments);
  ASSIGN_OR_RETURN(const std::string_view name, NameArgument(arguments, 0));
  const FilterFunction filter = FindFilter(name);
  // map('map', 'map', ...) would recurse as deep as it has arguments.
  if (filter == nullptr || filter == MapFilter) {
    return Error("cannot apply a filter '", name, "' to every item");
  }
  const Arguments rest = WithoutFirst(arguments, 1);
  std::vector<Value> mapped;
  for (const Value& item : list->items) {
    RETURN_IF_ERROR(runtime.Charge(kItemSteps));
    ASSIGN_OR_RETURN(Value value, filter(runtime, item, rest));
    mapped.push_back(std::move(value));
  }
  return runtime.NewList(ListKind::kGenerator, std::move(mapped));
}

// Keeps the items whose test, on themselves or on their attribute, comes out as `keep`.
template <bool by_attribute, bool keep>
Result SelectFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  constexpr size_t kTestIndex = by_attribute ? 1 : 0;
  // As in Jinja, what is false has no items, even where it could not be iterated.
  if (!IsTrue(input)) return runtime.NewList(ListKind::kGenerator, {});
  if (arguments.positional.size() < kTestIndex) {
    return Error("needs the name of an attribute");
  }
  ASSIGN_OR_RETURN(const Items list, Iterate(runtime, input));
  TestFunction test = nullptr;
  Arguments rest;
  if (arguments.positional.size() > kTestIndex) {
    ASSIGN_OR_RETURN(const std::string_view name, NameArgument(arguments, kTestIndex));
    test = FindTest(name);
    if (test == nullptr) return Error("there is no test '", name, "'");
    rest = WithoutFirst(arguments, kTestIndex + 1);
  }
  std::vector<Value> kept;
  for (const Value& item : list->items) {
    RETURN_IF_ERROR(runtime.Charge(kItemSteps));
    Value subject = item;
    if (by_attribute) {
      ASSIGN_OR_RETURN(subject, GetPath(runtime, item, arguments.positional[0], nullptr));
    }
    bool passed = IsTrue(subject);
    if (test != nullptr) {
      ASSIGN_OR_RETURN(passed, test(runtime, subject, rest));
    }
    if (passed == keep) kept.push_back(item);
  }
  return runtime.NewList(ListKind::kGenerator, std::move(kept));
}

Result AttrFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(arguments, {"name"}, 1));
  ASSIGN_OR_RETURN(const Text name, bound.TextOr(0, Text()));
  if (input.dict() != nullptr && FindDictMethod(name.bytes()) == nullptr) {
    return Value::UndefinedNamed(Concat("a dict has no attribute '", name.bytes(), "'"));
  }
  return GetAttribute(runtime, input, name.bytes());
}

constexpr Filter kSelectFilters[] = {
    {"attr", AttrFilter},
    {"map", MapFilter},
    {"reject", SelectFilter<false, false>},
    {"rejectattr", SelectFilter<true, false>},
    {"select", SelectFilter<false, true>},
    {"selectattr", SelectFilter<true, true>},
};

}  // namespace

absl::Span<const Filter> SelectFilters() { return kSelectFilters; }

}  // namespace quire::jinja

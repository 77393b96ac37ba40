#include "server/text/chat/jinja/builtins/globals.h"

#include <ctime>

#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/values/arguments.h"
#include "server/text/chat/jinja/values/error.h"
#include "server/text/chat/jinja/values/operators.h"
#include "server/text/chat/jinja/values/print.h"
#include "server/text/chat/jinja/values/runtime.h"

namespace quire::jinja {
namespace {

using Result = absl::StatusOr<Value>;
using FunctionPointer = Result (*)(Runtime& runtime, const Arguments& arguments);

// The same limit as Jinja's sandbox has.
constexpr Integer kMaxRange = 100'000;
constexpr size_t kMaxTimeFormatSize = 200;
constexpr size_t kMaxTimeSize = 4096;

class Function : public Object {
 public:
  Function(std::string_view name, FunctionPointer function) : name_(name), function_(function) {}

  std::string_view type_name() const override { return "function"; }
  bool callable() const override { return true; }

  Result Call(Runtime& runtime, const Arguments& arguments) override {
    Result result = function_(runtime, arguments);
    if (result.ok() || runtime.raised_by_template) return result;
    return Prefixed(result.status(), name_, "(): ");
  }

 private:
  const std::string_view name_;
  const FunctionPointer function_;
};

Result Range(Runtime& runtime, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind(arguments, {"start", "stop", "step"}, 1));
  ASSIGN_OR_RETURN(Integer start, bound.IntegerOr(0, 0));
  Integer stop = start;
  if (bound[1] == nullptr) {
    start = 0;
  } else {
    ASSIGN_OR_RETURN(stop, bound.IntegerOr(1, 0));
  }
  ASSIGN_OR_RETURN(const Integer step, bound.IntegerOr(2, 1));
  if (step == 0) return Error("the step must not be zero");
  std::vector<Value> items;
  for (Integer value = start; step > 0 ? value < stop : value > stop;) {
    if (static_cast<Integer>(items.size()) == kMaxRange) {
      return Error("a range may have at most ", static_cast<int>(kMaxRange), " items");
    }
    items.push_back(Value(value));
    if (__builtin_add_overflow(value, step, &value)) break;
  }
  return runtime.NewList(ListKind::kRange, std::move(items));
}

// dict(), dict({...}), dict([(key, value)]), each with keyword arguments.
absl::StatusOr<Dict> BuildDict(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.size() > 1) return Error("takes at most 1 argument");
  Dict dict;
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.dict() != nullptr) {
      RETURN_IF_ERROR(runtime.Charge(source.dict()->size()));
      dict = *source.dict();
    } else {
      ASSIGN_OR_RETURN(const std::shared_ptr<const List> pairs, Iterate(runtime, source));
      for (const Value& pair : pairs->items) {
        ASSIGN_OR_RETURN(const std::shared_ptr<const List> entry, Iterate(runtime, pair));
        if (entry->items.size() != 2) return Error("needs pairs of a key and a value");
        RETURN_IF_ERROR(CheckHashable(entry->items[0]));
        RETURN_IF_ERROR(runtime.Charge(entry->items[0].text() != nullptr ? 1 : 1 + dict.size()));
        dict.Set(entry->items[0], entry->items[1]);
      }
    }
  }
  for (const auto& [key, value] : arguments.keyword) {
    // A name may have come with **, out of what the user sent.
    dict.Set(Value(Text(key, Origin::kUser)), value);
  }
  return dict;
}

Result MakeDict(Runtime& runtime, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Dict dict, BuildDict(runtime, arguments));
  return runtime.NewDict(std::move(dict));
}

Result MakeNamespace(Runtime& runtime, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Dict dict, BuildDict(runtime, arguments));
  ASSIGN_OR_RETURN(const std::shared_ptr<Namespace> result, runtime.NewNamespace());
  for (const auto& [key, value] : dict.entries()) {
    if (key.text() == nullptr) return Error("attribute names must be strings");
    result->Set(key.text()->bytes(), value);
  }
  return Value(result);
}

Result RaiseException(Runtime& runtime, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(arguments, {"message"}, 1));
  ASSIGN_OR_RETURN(const Text message, ToText(runtime, *bound[0]));
  runtime.raised_by_template = true;
  return Error(message.bytes());
}

Result FormatNow(Runtime& runtime, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(arguments, {"format"}, 1));
  ASSIGN_OR_RETURN(const Text format, bound.TextOr(0, Text()));
  if (format.size() > kMaxTimeFormatSize) return Error("the format is too long");
  if (format.empty()) return Value(Text());
  const std::time_t now = runtime.now();
  std::tm local = {};
  localtime_r(&now, &local);
  char buffer[kMaxTimeSize];
  const size_t size =
      std::strftime(buffer, sizeof(buffer), std::string(format.bytes()).c_str(), &local);
  return runtime.NewText(std::string_view(buffer, size), Origin::kUser);
}

}  // namespace

std::vector<std::pair<std::string_view, Value>> Globals() {
  static constexpr std::pair<std::string_view, FunctionPointer> kFunctions[] = {
      {"dict", MakeDict}, {"namespace", MakeNamespace}, {"raise_exception", RaiseException},
      {"range", Range},   {"strftime_now", FormatNow},
  };
  std::vector<std::pair<std::string_view, Value>> globals;
  for (const auto& [name, function] : kFunctions) {
    globals.emplace_back(name, Value(std::make_shared<Function>(name, function)));
  }
  return globals;
}

}  // namespace quire::jinja

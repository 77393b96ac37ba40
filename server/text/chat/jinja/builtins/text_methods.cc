// The methods of str.
#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "kernels/base/status_macros.h"
#include "server/text/byte_search.h"
#include "server/text/chat/jinja/builtins/attributes.h"
#include "server/text/chat/jinja/builtins/text_operations.h"
#include "server/text/chat/jinja/values/error.h"
#include "server/text/chat/jinja/values/operators.h"
#include "server/text/python_text.h"
#include "server/text/utf8.h"

namespace quire::jinja {
namespace {

using Result = absl::StatusOr<Value>;

template <StripSides sides>
Result StripMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(arguments, {"chars"}));
  ASSIGN_OR_RETURN(const Text characters, bound.TextOr(0, Text()));
  RETURN_IF_ERROR(runtime.Charge(1 + self.weight() * (1 + characters.size() / kBytesPerStep)));
  const bool has_characters = bound[0] != nullptr && !bound[0]->is_none();
  return runtime.NewText(Strip(*self.text(), has_characters ? &characters : nullptr, sides));
}

template <CaseMapping mapping>
Result CaseMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind(arguments, {}).status());
  ASSIGN_OR_RETURN(Text mapped, MapCase(runtime, *self.text(), mapping));
  return runtime.NewText(std::move(mapped));
}

template <bool from_right>
Result SplitMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind(arguments, {"sep", "maxsplit"}));
  ASSIGN_OR_RETURN(const Text separator, bound.TextOr(0, Text()));
  ASSIGN_OR_RETURN(const Integer max_splits, bound.IntegerOr(1, -1));
  const bool has_separator = bound[0] != nullptr && !bound[0]->is_none();
  ASSIGN_OR_RETURN(std::vector<Value> parts,
                   (from_right ? SplitFromRight : Split)(
                       runtime, *self.text(), has_separator ? &separator : nullptr, max_splits));
  return runtime.NewList(ListKind::kList, std::move(parts));
}

Result SplitLinesMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(arguments, {"keepends"}));
  ASSIGN_OR_RETURN(const bool keep_ends, bound.BoolOr(0, false));
  ASSIGN_OR_RETURN(std::vector<Value> lines, SplitLines(runtime, *self.text(), keep_ends));
  return runtime.NewList(ListKind::kList, std::move(lines));
}

template <bool at_start>
bool HasAffix(std::string_view text, std::string_view affix) {
  return at_start ? text.starts_with(affix) : text.ends_with(affix);
}

template <bool at_start>
Result AffixMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind(arguments, {"prefix", "start", "end"}, 1));
  const Value none = None{};
  ASSIGN_OR_RETURN(const Value part, GetSlice(runtime, self, bound[1] ? *bound[1] : none,
                                              bound[2] ? *bound[2] : none, none));
  if (part.text() == nullptr) return UndefinedError(part);
  std::vector<Value> candidates = {*bound[0]};
  if (bound[0]->list() != nullptr && bound[0]->list()->kind == ListKind::kTuple) {
    candidates = bound[0]->list()->items;
  }
  for (const Value& candidate : candidates) {
    if (candidate.text() == nullptr) {
      return Error("needs a str or a tuple of str, not a ", candidate.type_name());
    }
    RETURN_IF_ERROR(runtime.Charge(candidate.weight()));
    if (HasAffix<at_start>(part.text()->bytes(), candidate.text()->bytes())) return Value(true);
  }
  return Value(false);
}

template <bool at_start>
Result RemoveAffixMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(arguments, {"affix"}, 1));
  ASSIGN_OR_RETURN(const Text affix, bound.TextOr(0, Text()));
  const Text& text = *self.text();
  if (!HasAffix<at_start>(text.bytes(), affix.bytes())) return self;
  const size_t begin = at_start ? affix.size() : 0;
  return runtime.NewText(text.Slice(begin, begin + text.size() - affix.size()));
}

Result ReplaceMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind(arguments, {"old", "new", "count"}, 2));
  ASSIGN_OR_RETURN(const Text from, bound.TextOr(0, Text()));
  ASSIGN_OR_RETURN(const Text to, bound.TextOr(1, Text()));
  ASSIGN_OR_RETURN(const Integer count, bound.IntegerOr(2, -1));
  ASSIGN_OR_RETURN(Text result, Replace(runtime, *self.text(), from, to, count));
  return runtime.NewText(std::move(result));
}

Result CountMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(arguments, {"sub"}, 1));
  ASSIGN_OR_RETURN(const Text part, bound.TextOr(0, Text()));
  RETURN_IF_ERROR(runtime.Charge(self.weight()));
  const std::string_view bytes = self.text()->bytes();
  if (part.empty()) return Value::FromSize(CountCharacters(bytes) + 1);
  size_t count = 0;
  for (size_t at = 0; (at = FindBytes(bytes, part.bytes(), at)) != bytes.npos; at += part.size())
    ++count;
  return Value::FromSize(count);
}

enum class FindDirection { kFirst, kLast };

template <FindDirection direction, bool must_exist>
Result FindOrIndex(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind(arguments, {"sub", "start"}, 1));
  ASSIGN_OR_RETURN(const Text part, bound.TextOr(0, Text()));
  ASSIGN_OR_RETURN(Integer start, bound.IntegerOr(1, 0));
  RETURN_IF_ERROR(runtime.Charge(self.weight()));
  const std::string_view bytes = self.text()->bytes();
  const Integer length = static_cast<Integer>(CountCharacters(bytes));
  if (start < 0) start = std::max<Integer>(start + length, 0);
  size_t found = bytes.npos;
  if (start <= length) {
    const size_t from = OffsetOfCharacter(bytes, static_cast<size_t>(start));
    found = direction == FindDirection::kFirst ? FindBytes(bytes, part.bytes(), from)
                                               : FindLastBytes(bytes, part.bytes());
    if (found != bytes.npos && found < from) found = bytes.npos;
  }
  if (found != bytes.npos) return Value::FromSize(CountCharacters(bytes.substr(0, found)));
  if (must_exist) return Error("the text does not contain it");
  return Value(Integer{-1});
}

template <bool (*test)(int32_t)>
Result CharacterTestMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind(arguments, {}).status());
  RETURN_IF_ERROR(runtime.Charge(self.weight()));
  const std::string_view bytes = self.text()->bytes();
  for (size_t at = 0; at < bytes.size();) {
    const Character character = CharacterAt(bytes, at);
    if (!test(character.code)) return Value(false);
    at += character.size;
  }
  return Value(!bytes.empty());
}

bool IsAlphanumeric(int32_t code) { return IsAlpha(code) || IsDecimal(code); }

template <bool upper>
Result CaseTestMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind(arguments, {}).status());
  RETURN_IF_ERROR(runtime.Charge(self.weight()));
  return Value(HasOnlyCase(self.text()->bytes(), upper));
}

Result JoinMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(arguments, {"iterable"}, 1));
  ASSIGN_OR_RETURN(const std::shared_ptr<const List> list, Iterate(runtime, *bound[0]));
  for (const Value& item : list->items) {
    if (item.text() == nullptr) {
      return Error("every item must be a str, not a ", item.type_name());
    }
  }
  ASSIGN_OR_RETURN(Text result, Join(runtime, *self.text(), list->items));
  return Value(std::move(result));
}

Result FormatMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const auto named = [&arguments](std::string_view name) -> const Value* {
    for (const auto& [key, value] : arguments.keyword) {
      if (key == name) return &value;
    }
    return nullptr;
  };
  ASSIGN_OR_RETURN(Text result, FormatBraces(runtime, *self.text(), arguments.positional, named));
  return Value(std::move(result));
}

template <bool last>
Result PartitionMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(arguments, {"sep"}, 1));
  ASSIGN_OR_RETURN(const Text separator, bound.TextOr(0, Text()));
  if (separator.empty()) return Error("the separator must not be empty");
  RETURN_IF_ERROR(runtime.Charge(2 * self.weight()));
  const Text& text = *self.text();
  const size_t found = last ? FindLastBytes(text.bytes(), separator.bytes())
                            : FindBytes(text.bytes(), separator.bytes(), 0);
  std::vector<Value> parts;
  if (found != std::string_view::npos) {
    const size_t after = found + separator.size();
    parts = {Value(text.Slice(0, found)), Value(text.Slice(found, after)),
             Value(text.Slice(after, text.size()))};
  } else {
    const Value empty = Value(Text());
    parts = last ? std::vector<Value>{empty, empty, self} : std::vector<Value>{self, empty, empty};
  }
  return runtime.NewList(ListKind::kTuple, std::move(parts));
}

constexpr Method kMethods[] = {
    {"capitalize", CaseMethod<CaseMapping::kCapitalize>},
    {"count", CountMethod},
    {"endswith", AffixMethod<false>},
    {"find", FindOrIndex<FindDirection::kFirst, false>},
    {"format", FormatMethod},
    {"index", FindOrIndex<FindDirection::kFirst, true>},
    {"isalnum", CharacterTestMethod<IsAlphanumeric>},
    {"isalpha", CharacterTestMethod<IsAlpha>},
    {"isdecimal", CharacterTestMethod<IsDecimal>},
    {"isdigit", CharacterTestMethod<IsDecimal>},
    {"islower", CaseTestMethod<false>},
    {"isnumeric", CharacterTestMethod<IsDecimal>},
    {"isspace", CharacterTestMethod<IsSpace>},
    {"isupper", CaseTestMethod<true>},
    {"join", JoinMethod},
    {"lower", CaseMethod<CaseMapping::kLower>},
    {"lstrip", StripMethod<StripSides::kLeft>},
    {"partition", PartitionMethod<false>},
    {"removeprefix", RemoveAffixMethod<true>},
    {"removesuffix", RemoveAffixMethod<false>},
    {"replace", ReplaceMethod},
    {"rfind", FindOrIndex<FindDirection::kLast, false>},
    {"rindex", FindOrIndex<FindDirection::kLast, true>},
    {"rpartition", PartitionMethod<true>},
    {"rsplit", SplitMethod<true>},
    {"rstrip", StripMethod<StripSides::kRight>},
    {"split", SplitMethod<false>},
    {"splitlines", SplitLinesMethod},
    {"startswith", AffixMethod<true>},
    {"strip", StripMethod<StripSides::kBoth>},
    {"swapcase", CaseMethod<CaseMapping::kSwap>},
    {"title", CaseMethod<CaseMapping::kTitle>},
    {"upper", CaseMethod<CaseMapping::kUpper>},
};

}  // namespace

const Method* FindTextMethod(std::string_view name) {
  const Method* found = std::find_if(std::begin(kMethods), std::end(kMethods),
                                     [name](const Method& method) { return method.name == name; });
  return found == std::end(kMethods) ? nullptr : found;
}

}  // namespace quire::jinja

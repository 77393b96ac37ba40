// Filters that work on the text of a value.
#include <string>

#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/builtins/filters.h"
#include "server/text/chat/jinja/builtins/text_operations.h"
#include "server/text/chat/jinja/values/error.h"
#include "server/text/chat/jinja/values/operators.h"
#include "server/text/chat/jinja/values/print.h"
#include "server/text/utf8.h"

namespace quire::jinja {
namespace {

using Result = absl::StatusOr<Value>;

template <CaseMapping mapping>
Result CaseFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind(arguments, {}).status());
  ASSIGN_OR_RETURN(const Text text, ToText(runtime, input));
  ASSIGN_OR_RETURN(Text mapped, MapCase(runtime, text, mapping));
  return runtime.NewText(std::move(mapped));
}

Result TrimFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(arguments, {"chars"}));
  ASSIGN_OR_RETURN(const Text characters, bound.TextOr(0, Text()));
  RETURN_IF_ERROR(runtime.Charge(1 + input.weight() * (1 + characters.size() / kBytesPerStep)));
  ASSIGN_OR_RETURN(const Text text, ToText(runtime, input));
  const bool has_characters = bound[0] != nullptr && !bound[0]->is_none();
  return runtime.NewText(Strip(text, has_characters ? &characters : nullptr, StripSides::kBoth));
}

Result ReplaceFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind(arguments, {"old", "new", "count"}, 2));
  ASSIGN_OR_RETURN(const Text text, ToText(runtime, input));
  ASSIGN_OR_RETURN(const Text from, ToText(runtime, *bound[0]));
  ASSIGN_OR_RETURN(const Text to, ToText(runtime, *bound[1]));
  ASSIGN_OR_RETURN(const Integer count, bound.IntegerOr(2, -1));
  ASSIGN_OR_RETURN(Text result, Replace(runtime, text, from, to, count));
  return Value(std::move(result));
}

Result StringFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind(arguments, {}).status());
  ASSIGN_OR_RETURN(Text text, ToText(runtime, input));
  return runtime.NewText(std::move(text));
}

Result EscapeFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  static constexpr std::string_view kReplacements[][2] = {
      {"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"'", "&#39;"}, {"\"", "&#34;"}};
  RETURN_IF_ERROR(BoundArguments::Bind(arguments, {}).status());
  ASSIGN_OR_RETURN(Text text, ToText(runtime, input));
  for (const auto& [from, to] : kReplacements) {
    ASSIGN_OR_RETURN(
        text, Replace(runtime, text, Text(from, Origin::kUser), Text(to, Origin::kUser), -1));
  }
  return Value(std::move(text));
}

// str.center: of an odd number of blanks, the extra one is on the left in a field of odd width.
Result CenterFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  constexpr Integer kMaxWidth = 1000;
  ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(arguments, {"width"}));
  ASSIGN_OR_RETURN(const Text text, ToText(runtime, input));
  ASSIGN_OR_RETURN(const Integer width, bound.IntegerOr(0, 80));
  if (width > kMaxWidth) return Error("a field is at most 1000 wide");
  const Integer missing = width - static_cast<Integer>(CountCharacters(text.bytes()));
  if (missing <= 0) return runtime.NewText(Text(text));
  const Integer left = missing / 2 + (missing & width & 1);
  Text result(std::string(static_cast<size_t>(left), ' '), Origin::kUser);
  result.Append(text);
  result.Append(std::string(static_cast<size_t>(missing - left), ' '), Origin::kUser);
  return runtime.NewText(std::move(result));
}

Result IndentFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind(arguments, {"width", "first", "blank"}));
  if (input.text() == nullptr) return Error("only a string can be indented");
  const Text& text = *input.text();
  ASSIGN_OR_RETURN(const bool first, bound.BoolOr(1, false));
  ASSIGN_OR_RETURN(const bool blank, bound.BoolOr(2, false));
  Text indentation;
  if (bound[0] != nullptr && bound[0]->text() != nullptr) {
    indentation = *bound[0]->text();
  } else {
    ASSIGN_OR_RETURN(const Integer width, bound.IntegerOr(0, 4));
    if (width > 1000) return Error("an indentation is at most 1000 wide");
    if (width > 0) indentation = Text(std::string(static_cast<size_t>(width), ' '), Origin::kUser);
  }
  ASSIGN_OR_RETURN(Text result, Indent(runtime, text, indentation, first, blank));
  return Value(std::move(result));
}

Result FormatFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.keyword.empty()) {
    return Error("takes positional or keyword arguments, not both");
  }
  ASSIGN_OR_RETURN(const Text format, ToText(runtime, input));
  if (arguments.keyword.empty()) {
    ASSIGN_OR_RETURN(const Value values, runtime.NewList(ListKind::kTuple, arguments.positional));
    return PercentFormat(runtime, format, values);
  }
  Dict values;
  for (const auto& [key, value] : arguments.keyword) {
    values.Set(Value(Text(key, Origin::kUser)), value);
  }
  ASSIGN_OR_RETURN(const Value dict, runtime.NewDict(std::move(values)));
  return PercentFormat(runtime, format, dict);
}

absl::Status SetSeparators(const Value& separators, JsonStyle* style) {
  const List* list = separators.list();
  if (list == nullptr || list->items.size() != 2 || list->items[0].text() == nullptr ||
      list->items[1].text() == nullptr) {
    return Error("argument 'separators' must be two strings");
  }
  style->item_separator = list->items[0].text()->bytes();
  style->key_separator = list->items[1].text()->bytes();
  return absl::OkStatus();
}

Result ToJsonFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind(arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  ASSIGN_OR_RETURN(style.ensure_ascii, bound.BoolOr(0, false));
  if (bound[1] != nullptr && bound[1]->text() != nullptr) {
    style.indent = bound[1]->text()->bytes();
  } else if (bound[1] != nullptr && !bound[1]->is_none()) {
    ASSIGN_OR_RETURN(const Integer width, bound.IntegerOr(1, 0));
    if (width > 100) return Error("argument 'indent' is at most 100");
    style.indent = std::string(static_cast<size_t>(width > 0 ? width : 0), ' ');
  }
  if (style.indent) style.item_separator = ",";
  if (bound[2] != nullptr && !bound[2]->is_none())
    RETURN_IF_ERROR(SetSeparators(*bound[2], &style));
  ASSIGN_OR_RETURN(style.sort_keys, bound.BoolOr(3, false));
  ASSIGN_OR_RETURN(const std::string json, ToJson(runtime, input, style));
  return runtime.NewText(json, Origin::kUser);
}

constexpr Filter kTextFilters[] = {
    {"capitalize", CaseFilter<CaseMapping::kCapitalize>},
    {"e", EscapeFilter},
    {"escape", EscapeFilter},
    {"format", FormatFilter},
    {"center", CenterFilter},
    {"indent", IndentFilter},
    {"lower", CaseFilter<CaseMapping::kLower>},
    {"replace", ReplaceFilter},
    {"safe", StringFilter},
    {"string", StringFilter},
    {"title", CaseFilter<CaseMapping::kTitleFilter>},
    {"tojson", ToJsonFilter},
    {"trim", TrimFilter},
    {"upper", CaseFilter<CaseMapping::kUpper>},
};

}  // namespace

absl::Span<const Filter> TextFilters() { return kTextFilters; }

}  // namespace quire::jinja

// PercentFormat and FormatBraces: Python's % operator on strings and str.format.
#include <cctype>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/builtins/text_operations.h"
#include "server/text/chat/jinja/values/error.h"
#include "server/text/chat/jinja/values/operators.h"
#include "server/text/chat/jinja/values/print.h"
#include "server/text/utf8.h"

namespace quire::jinja {
namespace {

constexpr int kMaxWidth = 1000;

// One %[(key)][flags][width][.precision]type.
struct Conversion {
  std::optional<std::string> key;
  std::string flags;
  int width = 0;
  int precision = -1;
  char type = '\0';
};

class ConversionReader {
 public:
  ConversionReader(std::string_view format, size_t at) : format_(format), at_(at) {}

  size_t at() const { return at_; }

  absl::StatusOr<Conversion> Read() {
    Conversion conversion;
    if (Peek() == '(') {
      const size_t end = format_.find(')', at_);
      if (end == std::string_view::npos) return Malformed();
      conversion.key = std::string(format_.substr(at_ + 1, end - at_ - 1));
      at_ = end + 1;
    }
    while (Peek() != '\0' && std::string_view("-+ 0#").find(Peek()) != std::string_view::npos) {
      conversion.flags.push_back(format_[at_++]);
    }
    ASSIGN_OR_RETURN(conversion.width, ReadNumber());
    if (Peek() == '.') {
      ++at_;
      ASSIGN_OR_RETURN(conversion.precision, ReadNumber());
    }
    if (at_ == format_.size()) return Malformed();
    conversion.type = format_[at_++];
    return conversion;
  }

 private:
  char Peek() const { return at_ < format_.size() ? format_[at_] : '\0'; }

  absl::Status Malformed() const {
    return Error("a % conversion in a format string is not complete");
  }

  absl::StatusOr<int> ReadNumber() {
    int number = 0;
    while (std::isdigit(static_cast<unsigned char>(Peek())) != 0) {
      number = number * 10 + (format_[at_++] - '0');
      if (number > kMaxWidth) {
        return Error("a format width is over ", kMaxWidth);
      }
    }
    return number;
  }

  std::string_view format_;
  size_t at_;
};

Text Pad(const Text& text, const Conversion& conversion) {
  const size_t length = CountCharacters(text.bytes());
  const size_t width = static_cast<size_t>(conversion.width);
  if (length >= width) return text;
  const std::string spaces(width - length, ' ');
  const bool left = conversion.flags.find('-') != std::string::npos;
  Text padded;
  if (!left) padded.Append(spaces, Origin::kUser);
  padded.Append(text);
  if (left) padded.Append(spaces, Origin::kUser);
  return padded;
}

absl::StatusOr<Text> FormatNumber(const Conversion& conversion, const Value& value) {
  if (!value.is_number()) {
    return Error("%", std::string(1, conversion.type), " needs a number, not a ",
                 value.type_name());
  }
  const bool is_integer =
      std::string_view("diuxXo").find(conversion.type) != std::string_view::npos;
  std::string specification =
      Concat("%", conversion.flags, conversion.width > 0 ? Concat(conversion.width) : "",
             conversion.precision >= 0 ? Concat(".", conversion.precision) : "");
  char buffer[2 * kMaxWidth];
  if (is_integer) {
    const Integer integer =
        value.is_float() ? static_cast<Integer>(value.number()) : value.integer();
    if (integer > INT64_MAX || integer < INT64_MIN) {
      return Error("a number is too large for a % conversion");
    }
    specification += Concat(
        "ll",
        std::string(1, conversion.type == 'u' || conversion.type == 'i' ? 'd' : conversion.type));
    std::snprintf(buffer, sizeof(buffer), specification.c_str(), static_cast<long long>(integer));
  } else {
    specification += conversion.type;
    std::snprintf(buffer, sizeof(buffer), specification.c_str(), value.number());
  }
  return Text(buffer, Origin::kUser);
}

absl::StatusOr<Text> FormatConversion(Runtime& runtime, const Conversion& conversion,
                                      const Value& value) {
  switch (conversion.type) {
    case 's':
    case 'r': {
      Text text;
      if (conversion.type == 's') {
        ASSIGN_OR_RETURN(text, ToText(runtime, value));
      } else {
        ASSIGN_OR_RETURN(const std::string repr, Repr(runtime, value));
        text = Text(repr, Origin::kUser);
      }
      if (conversion.precision >= 0) {
        text = text.Slice(
            0, OffsetOfCharacter(text.bytes(), static_cast<size_t>(conversion.precision)));
      }
      return Pad(text, conversion);
    }
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
      return FormatNumber(conversion, value);
    default:
      return Error("a format string uses '%", std::string(1, conversion.type),
                   "', which is unknown");
  }
}

// Hands out the values of a % format: the items of a tuple, the entries of a dict, or the one
// value.
class FormatValues {
 public:
  explicit FormatValues(const Value& values) : values_(values) {
    is_tuple_ = values.list() != nullptr && values.list()->kind == ListKind::kTuple;
  }

  absl::StatusOr<Value> Next(const Conversion& conversion) {
    if (conversion.key) {
      const Value* value =
          values_.dict() == nullptr ? nullptr : values_.dict()->Find(*conversion.key);
      if (value == nullptr) {
        return Error("a format needs the key '", *conversion.key, "'");
      }
      return *value;
    }
    if (next_ >= size()) return Error("not enough arguments for a format string");
    ++next_;
    return is_tuple_ ? values_.list()->items[next_ - 1] : values_;
  }

  absl::Status CheckAllUsed() const {
    // Python asks whether values could be taken by key, which even a list seems to allow.
    const List* list = values_.list();
    const bool seems_mapping = values_.dict() != nullptr || values_.is_undefined() ||
                               (list != nullptr && list->indexable() && !is_tuple_);
    if (seems_mapping || next_ == size()) return absl::OkStatus();
    return Error("too many arguments for a format string");
  }

 private:
  size_t size() const { return is_tuple_ ? values_.list()->items.size() : 1; }

  const Value& values_;
  bool is_tuple_;
  size_t next_ = 0;
};

}  // namespace

absl::StatusOr<Value> PercentFormat(Runtime& runtime, const Text& format, const Value& values) {
  const std::string_view bytes = format.bytes();
  FormatValues source(values);
  Text result;
  size_t at = 0;
  while (true) {
    const size_t percent = std::min(bytes.find('%', at), bytes.size());
    RETURN_IF_ERROR(runtime.Append(&result, format, at, percent));
    if (percent == bytes.size()) break;
    ConversionReader reader(bytes, percent + 1);
    ASSIGN_OR_RETURN(const Conversion conversion, reader.Read());
    at = reader.at();
    if (conversion.type == '%') {
      RETURN_IF_ERROR(runtime.Append(&result, format, at - 1, at));
      continue;
    }
    ASSIGN_OR_RETURN(const Value value, source.Next(conversion));
    ASSIGN_OR_RETURN(const Text piece, FormatConversion(runtime, conversion, value));
    RETURN_IF_ERROR(runtime.Append(&result, piece));
  }
  RETURN_IF_ERROR(source.CheckAllUsed());
  return Value(std::move(result));
}

absl::StatusOr<Text> FormatBraces(Runtime& runtime, const Text& format,
                                  const std::vector<Value>& positional,
                                  const std::function<const Value*(std::string_view)>& named) {
  const std::string_view bytes = format.bytes();
  Text result;
  size_t next = 0;
  for (size_t at = 0; at < bytes.size();) {
    const size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
    RETURN_IF_ERROR(runtime.Append(&result, format, at, brace));
    if (brace == bytes.size()) break;
    if (bytes.substr(brace + 1, 1) == bytes.substr(brace, 1)) {
      RETURN_IF_ERROR(runtime.Append(&result, format, brace, brace + 1));
      at = brace + 2;
      continue;
    }
    const size_t end = bytes.find('}', brace);
    if (bytes[brace] == '}' || end == std::string_view::npos) {
      return Error("a format string has a single brace");
    }
    const std::string_view field = bytes.substr(brace + 1, end - brace - 1);
    size_t index = next;
    const Value* value = nullptr;
    if (field.empty() || absl::SimpleAtoi(std::string(field), &index)) {
      if (field.empty()) ++next;
      value = index < positional.size() ? &positional[index] : nullptr;
    } else {
      value = named(field);
    }
    if (value == nullptr) {
      return Error("format() has no argument for '{", field, "}'");
    }
    ASSIGN_OR_RETURN(const Text piece, ToText(runtime, *value));
    RETURN_IF_ERROR(runtime.Append(&result, piece));
    at = end + 1;
  }
  return result;
}

}  // namespace quire::jinja

#include "engine/json/json_reader.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/json/json_events.h"
#include "engine/json/parse_json.h"

namespace quire {
namespace {

using nlohmann::json;

constexpr size_t kMaxShownChars = 100;

// What JSON has no word for, and a number that stands for it while the text is parsed: as long, so
// that errors name the right byte, and spelled as nobody writes it.
struct PythonConstant {
  absl::string_view word;
  absl::string_view stand_in;
  double value;
};
constexpr PythonConstant kPythonConstants[] = {
    {"NaN", "0E7", std::numeric_limits<double>::quiet_NaN()},
    {"Infinity", "1.79e308", std::numeric_limits<double>::infinity()},
    {"-Infinity", "-1.79e308", -std::numeric_limits<double>::infinity()},
};

const PythonConstant* FindConstant(absl::string_view PythonConstant::*field,
                                   absl::string_view value) {
  for (const PythonConstant& constant : kPythonConstants) {
    if (constant.*field == value) return &constant;
  }
  return nullptr;
}

// The constant that stands at `begin` as a word of its own, if there is one.
const PythonConstant* ConstantAt(absl::string_view text, size_t begin) {
  if (begin > 0 && (absl::ascii_isalnum(text[begin - 1]) || text[begin - 1] == '-')) return nullptr;
  for (const PythonConstant& constant : kPythonConstants) {
    const size_t end = begin + constant.word.size();
    if (absl::StartsWith(text.substr(begin), constant.word) &&
        (end == text.size() || !absl::ascii_isalnum(text[end]))) {
      return &constant;
    }
  }
  return nullptr;
}

std::string WithStandIns(absl::string_view text) {
  std::string result(text);
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      const PythonConstant* constant = ConstantAt(text, i);
      if (constant == nullptr) continue;
      const absl::string_view number = constant->stand_in;
      result.replace(i, constant->word.size(), number.data(), number.size());
    }
  }
  return result;
}

enum class Dialect : uint8_t { kJson, kPython };

// Builds the value from the parser's events and stops at the first thing it does not accept.
class ObjectBuilder : public JsonEvents {
 public:
  ObjectBuilder(DuplicateKeys duplicates, Dialect dialect)
      : duplicates_(duplicates), dialect_(dialect) {}

  json& root() { return root_; }

  bool null() { return Add(nullptr); }
  bool boolean(bool value) { return Add(value); }
  bool number_integer(int64_t value) { return Add(value); }
  bool number_unsigned(uint64_t value) { return Add(value); }
  bool number_float(double value, const std::string& text) {
    const PythonConstant* constant =
        dialect_ == Dialect::kPython ? FindConstant(&PythonConstant::stand_in, text) : nullptr;
    return Add(constant != nullptr ? constant->value : value);
  }
  bool string(std::string& value) { return Add(std::move(value)); }
  bool start_object(size_t) { return Open(json::object()); }
  bool end_object() {
    if (dialect_ == Dialect::kPython && open_.size() > 1) ReadTaggedFloat(open_.back());
    return Close();
  }
  bool start_array(size_t) { return Open(json::array()); }
  bool end_array() { return Close(); }

  bool key(std::string& value) {
    json& object = *open_.back();
    if (duplicates_ == DuplicateKeys::kRefused && object.contains(value)) {
      return Fail(absl::StrCat("key ", Shown(value), " appears twice"));
    }
    slot_ = &object[value];
    return true;
  }

 private:
  // transformers writes Infinity as {"__float__": "Infinity"}.
  static void ReadTaggedFloat(json* object) {
    const auto tagged = object->find("__float__");
    if (object->size() != 1 || tagged == object->end() || !tagged->is_string()) return;
    const PythonConstant* constant =
        FindConstant(&PythonConstant::word, tagged->get_ref<const std::string&>());
    if (constant != nullptr) *object = constant->value;
  }

  json* Place(json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_array()) return &open_.back()->emplace_back(std::move(value));
    return &(*slot_ = std::move(value));
  }

  bool Add(json value) {
    if (open_.empty()) return Fail("must hold one JSON object");
    Place(std::move(value));
    return true;
  }

  bool Open(json value) {
    if (open_.empty() && !value.is_object()) return Fail("must hold one JSON object");
    if (!Enter()) return false;
    open_.push_back(Place(std::move(value)));
    return true;
  }

  bool Close() {
    open_.pop_back();
    Leave();
    return true;
  }

  const DuplicateKeys duplicates_;
  const Dialect dialect_;
  json root_;
  std::vector<json*> open_;  // objects and arrays that are not closed yet, outermost first
  json* slot_ = nullptr;     // where the value of the last key goes
};

absl::StatusOr<json> Parse(absl::string_view text, absl::string_view name, ObjectBuilder builder) {
  if (!ReadJsonEvents(text, &builder)) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", builder.error()));
  }
  return std::move(builder.root());
}

}  // namespace

absl::StatusOr<json> ParseJsonObject(absl::string_view text, absl::string_view name,
                                     DuplicateKeys duplicates) {
  return Parse(text, name, ObjectBuilder(duplicates, Dialect::kJson));
}

absl::StatusOr<json> ParseModelJson(absl::string_view text, absl::string_view name) {
  return Parse(WithStandIns(text), name, ObjectBuilder(DuplicateKeys::kLastWins, Dialect::kPython));
}

std::string WithCommas(uint64_t value) {
  const std::string digits = absl::StrCat(value);
  std::string result;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) result += ',';
    result += digits[i];
  }
  return result;
}

std::string Shown(const json& value) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    if (std::isnan(value.get<double>())) return "NaN";
    return value.get<double>() > 0 ? "Infinity" : "-Infinity";
  }
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  if (text.size() > kMaxShownChars) {
    text.resize(kMaxShownChars);
    text += "...";
  }
  return text;
}

std::string Shown(const std::string& text) { return Shown(json(text)); }

JsonReader::JsonReader(const json& object, std::string name, absl::Status* status)
    : object_(&object), name_(std::move(name)), status_(status) {}

bool JsonReader::Has(absl::string_view key) const { return object_->contains(std::string(key)); }

const json* JsonReader::Find(absl::string_view key) const {
  const auto it = object_->find(std::string(key));
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

std::optional<int64_t> JsonReader::Int(absl::string_view key, int64_t min, int64_t max) {
  const json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  return CheckedInt(*value, key, min, max);
}

std::optional<double> JsonReader::Double(absl::string_view key, double min, double max) {
  const json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    FailType(key, "a number", *value);
    return std::nullopt;
  }
  const double number = value->get<double>();
  if (number >= min && number <= max) return number;
  Fail(absl::StrCat(key, " is ", number, "; it must be between ", min, " and ", max));
  return std::nullopt;
}

std::optional<bool> JsonReader::Bool(absl::string_view key) {
  const json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  FailType(key, "true or false", *value);
  return std::nullopt;
}

std::optional<std::string> JsonReader::String(absl::string_view key) {
  const json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  FailType(key, "a string", *value);
  return std::nullopt;
}

std::vector<int64_t> JsonReader::IntOrIntList(absl::string_view key, int64_t min, int64_t max) {
  std::vector<int64_t> result;
  const json* value = Find(key);
  if (value == nullptr) return result;
  if (!value->is_array()) {
    if (auto number = CheckedInt(*value, key, min, max)) result.push_back(*number);
    return result;
  }
  for (const json& element : *value) {
    const auto number = CheckedInt(element, key, min, max);
    if (!number) return {};
    result.push_back(*number);
  }
  return result;
}

std::vector<std::string> JsonReader::StringList(absl::string_view key) {
  std::vector<std::string> result;
  const json* value = Find(key);
  if (value == nullptr) return result;
  if (!value->is_array()) {
    FailType(key, "a list of strings", *value);
    return result;
  }
  for (const json& element : *value) {
    if (!element.is_string()) {
      FailType(key, "a list of strings", *value);
      return {};
    }
    result.push_back(element.get<std::string>());
  }
  return result;
}

std::optional<const json*> JsonReader::List(absl::string_view key) {
  const json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_array()) return value;
  FailType(key, "a list", *value);
  return std::nullopt;
}

std::optional<JsonReader> JsonReader::Object(absl::string_view key) {
  const json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_object()) return JsonReader(*value, absl::StrCat(name_, ": ", key), status_);
  FailType(key, "an object", *value);
  return std::nullopt;
}

void JsonReader::Fail(absl::string_view message) {
  if (status_->ok()) *status_ = absl::InvalidArgumentError(absl::StrCat(name_, ": ", message));
}

void JsonReader::FailUnsupported(absl::string_view message) {
  if (status_->ok()) *status_ = absl::UnimplementedError(absl::StrCat(name_, ": ", message));
}

std::optional<int64_t> JsonReader::CheckedInt(const json& value, absl::string_view key, int64_t min,
                                              int64_t max) {
  if (!value.is_number_integer()) {
    FailType(key, "an integer", value);
    return std::nullopt;
  }
  const bool fits = !value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX;
  if (fits && value.get<int64_t>() >= min && value.get<int64_t>() <= max) {
    return value.get<int64_t>();
  }
  Fail(absl::StrCat(key, " is ", Shown(value), "; it must be between ", min, " and ", max));
  return std::nullopt;
}

void JsonReader::FailType(absl::string_view key, absl::string_view expected, const json& value) {
  Fail(absl::StrCat(key, " must be ", expected, ", not ", Shown(value)));
}

}  // namespace quire

#include "tools/bench/json_values.h"

#include <cmath>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tools/bench/failure.h"

namespace quire::bench {

using Json = nlohmann::ordered_json;

const Json& MemberOf(const Json& json, const std::string& key) {
  static const Json& none = *new Json();
  if (!json.is_object()) return none;
  const auto member = json.find(key);
  return member == json.end() ? none : *member;
}

std::optional<double> NumberAt(const Json& json, const std::string& key) {
  const Json& value = MemberOf(json, key);
  if (!value.is_number() || !std::isfinite(value.get<double>())) return std::nullopt;
  return value.get<double>();
}

std::optional<int64_t> IntegerAt(const Json& json, const std::string& key) {
  const Json& value = MemberOf(json, key);
  return value.is_number_integer() ? std::optional(value.get<int64_t>()) : std::nullopt;
}

std::optional<std::string> StringAt(const Json& json, const std::string& key) {
  const Json& value = MemberOf(json, key);
  return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
}

std::string TextAt(const Json& json, const std::string& key) {
  const Json& value = MemberOf(json, key);
  if (value.is_string()) return value.get<std::string>();
  return value.is_number() || value.is_boolean() ? value.dump() : "";
}

Json OrNull(const std::optional<double>& value) {
  return value.has_value() ? Json(*value) : Json();
}

std::string LineOf(const Json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

absl::Status ReadLines(
    const std::string& flag, const std::string& path,
    const std::function<std::string(const std::string& line, int64_t number)>& take) {
  std::ifstream file(path);
  if (!file) return UsageError(absl::StrCat(flag, ": cannot read \"", path, "\""));
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string problem = take(line, number);
    if (problem.empty()) continue;
    return UsageError(absl::StrCat(flag, ": ", path, " line ", number, ": ", problem));
  }
  return absl::OkStatus();
}

}  // namespace quire::bench

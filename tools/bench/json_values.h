// Reads the members of JSON that somebody else wrote, without trust in their types. Reads files of
// lines. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"

namespace quire::bench {

// The member; null where there is none.
const nlohmann::ordered_json& MemberOf(const nlohmann::ordered_json& json, const std::string& key);
// The member, if it is a number and a finite one.
std::optional<double> NumberAt(const nlohmann::ordered_json& json, const std::string& key);
// The member, if it is a whole number.
std::optional<int64_t> IntegerAt(const nlohmann::ordered_json& json, const std::string& key);
// The member, if it is a string.
std::optional<std::string> StringAt(const nlohmann::ordered_json& json, const std::string& key);
// Text or number as text; empty for anything else.
std::string TextAt(const nlohmann::ordered_json& json, const std::string& key);

// Null for none.
nlohmann::ordered_json OrNull(const std::optional<double>& value);
// In one line, or in several with an `indent`. Bytes that are not UTF-8 are replaced.
std::string LineOf(const nlohmann::ordered_json& json, int indent = -1);

// Calls take(line, number) for each line of the file that has more than spaces. `take` returns what
// is wrong with the line, or nothing. The error (exit code 64) names `flag`, file and line.
absl::Status ReadLines(
    const std::string& flag, const std::string& path,
    const std::function<std::string(const std::string& line, int64_t number)>& take);

}  // namespace quire::bench

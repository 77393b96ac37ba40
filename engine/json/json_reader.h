// Access to JSON objects from outside: a parser that bounds their depth, and typed look-ups. In a
// look-up, a value of the wrong type or out of range is an error that names the file and the key.
// All of engine/ and server/ use only these. Plain functions and values; any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace quire {

enum class DuplicateKeys : uint8_t { kLastWins, kRefused };

// Parses a text whose value is an object, nested at most kMaxJsonDepth (64) deep. INVALID_ARGUMENT,
// beginning with `name`, otherwise.
absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text, absl::string_view name,
                                               DuplicateKeys duplicates);

// The same for a file of a model, as Python's json and transformers write them: Infinity,
// -Infinity, NaN and {"__float__": "Infinity"} are numbers, and if keys are equal, the last one
// counts.
absl::StatusOr<nlohmann::json> ParseModelJson(absl::string_view text, absl::string_view name);

// 1234567 -> "1,234,567".
std::string WithCommas(uint64_t value);

// For errors: the value in ASCII JSON, shortened if it is long. Text in quotes is a JSON string.
std::string Shown(const nlohmann::json& value);
std::string Shown(const std::string& text);

// Typed look-ups in one JSON object. A getter returns nothing when the key is absent or null, and
// also, after recording why in *status, when the value cannot be used. Only the first failure is
// kept, so a caller reads everything and checks *status once.
class JsonReader {
 public:
  // `name` begins every error ("config.json: "). The object and the status outlive the reader.
  JsonReader(const nlohmann::json& object, std::string name, absl::Status* status);

  bool Has(absl::string_view key) const;  // present, perhaps as null
  // The value under `key`, or nullptr when absent or null.
  const nlohmann::json* Find(absl::string_view key) const;

  std::optional<int64_t> Int(absl::string_view key, int64_t min, int64_t max);
  std::optional<double> Double(absl::string_view key, double min, double max);
  std::optional<bool> Bool(absl::string_view key);
  std::optional<std::string> String(absl::string_view key);
  // A single integer counts as a list with one element; absent or null is empty.
  std::vector<int64_t> IntOrIntList(absl::string_view key, int64_t min, int64_t max);
  std::vector<std::string> StringList(absl::string_view key);
  std::optional<const nlohmann::json*> List(absl::string_view key);
  // A reader of the object under `key`; its name is "name: key".
  std::optional<JsonReader> Object(absl::string_view key);

  // Record INVALID_ARGUMENT or UNIMPLEMENTED "name: message".
  void Fail(absl::string_view message);
  void FailUnsupported(absl::string_view message);

 private:
  std::optional<int64_t> CheckedInt(const nlohmann::json& value, absl::string_view key, int64_t min,
                                    int64_t max);
  void FailType(absl::string_view key, absl::string_view expected, const nlohmann::json& value);

  const nlohmann::json* object_;
  std::string name_;
  absl::Status* status_;
};

}  // namespace quire

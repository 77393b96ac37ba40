#include "engine/json/json_members.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/json/json_reader.h"

namespace quire {
namespace {

using nlohmann::json;

// `value`, read from `key`, which must be there; or what `reader` has recorded in `status`.
template <typename T>
absl::StatusOr<T> Required(std::optional<T> value, const char* key, absl::string_view expected,
                           JsonReader* reader, const absl::Status& status) {
  if (value.has_value()) return *std::move(value);
  reader->Fail(absl::StrCat(key, " is missing; it must be ", expected));
  return status;
}

}  // namespace

const json& Member(const json& object, const char* key) {
  static const json& null = *new json();
  if (!object.is_object()) return null;
  const auto it = object.find(key);
  return it == object.end() ? null : *it;
}

absl::StatusOr<std::string> GetString(const json& object, const char* key, std::string_view where) {
  absl::Status status;
  JsonReader reader(object, std::string(where), &status);
  return Required(reader.String(key), key, "a string", &reader, status);
}

absl::StatusOr<bool> GetBool(const json& object, const char* key, bool fallback,
                             std::string_view where) {
  absl::Status status;
  const std::optional<bool> value = JsonReader(object, std::string(where), &status).Bool(key);
  if (!status.ok()) return status;
  return value.value_or(fallback);
}

absl::StatusOr<int64_t> GetCount(const json& object, const char* key, int64_t max,
                                 std::string_view where) {
  absl::Status status;
  JsonReader reader(object, std::string(where), &status);
  return Required(reader.Int(key, 0, max), key, "an integer", &reader, status);
}

absl::StatusOr<const json*> GetArray(const json& object, const char* key, std::string_view where) {
  absl::Status status;
  JsonReader reader(object, std::string(where), &status);
  return Required(reader.List(key), key, "a list", &reader, status);
}

}  // namespace quire

// JsonTree: the JSON of a request's body, as it stands: members in their order, so that a template
// sees tools as the client wrote them. Depth and number of values are bounded, and time and memory
// grow as the text. A long list of token ids is no values but numbers, as many as the body holds.
// Plain value; pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace quire {

// As in chat/json_values.h.
inline constexpr size_t kMaxBodyValues = size_t{1} << 16;

struct JsonTree {
  // kIds: a list of at least kMinIds integers from 0 to 2^32 - 1 and nothing else.
  enum class Kind : uint8_t { kNull, kBool, kInteger, kFloat, kText, kList, kObject, kIds };
  // 64 prompts of fewer each are within kMaxBodyValues.
  static constexpr size_t kMinIds = 512;

  Kind kind = Kind::kNull;
  int64_t integer = 0;                 // kInteger, and kBool as 0 or 1
  double number = 0;                   // kInteger and kFloat
  std::string text = {};               // kText; of kFloat, how it was written
  std::vector<JsonTree> items = {};    // of a list, or an object's values
  std::vector<std::string> keys = {};  // of the object's values; of equal ones the last counts
  std::vector<uint32_t> ids = {};      // of kIds

  bool is_null() const { return kind == Kind::kNull; }
  bool is_text() const { return kind == Kind::kText; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_object() const { return kind == Kind::kObject; }
  bool is_number() const { return kind == Kind::kInteger || kind == Kind::kFloat; }
  // The member of an object; null where there is none or it is null.
  const JsonTree* Find(absl::string_view key) const;
};

// INVALID_ARGUMENT says what is wrong. `*num_values` is how many values there were before, which
// count too; those of the text are added.
absl::StatusOr<JsonTree> ParseJsonTree(std::string_view text, size_t* num_values);

std::string ToJson(const JsonTree& tree);

// To make one by hand.
JsonTree TextTree(std::string text);
void AddMember(JsonTree* object, std::string key, JsonTree value);

}  // namespace quire

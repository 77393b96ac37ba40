// JsonTree: the JSON of a request as it stands: members in their order, so that a template sees
// tools as the client wrote them, and null is not the same as a field that is left out. Depth and
// number of values are bounded, and time and memory grow as the text. A long list of token ids
// counts as one value; its ids are kept as numbers, as many as the text holds. Plain value; pure
// functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/json/json_events.h"

namespace quire {

// Numbers, texts, lists and so on of one request: each takes some 200 bytes of memory, and may have
// taken only two in the text.
inline constexpr size_t kMaxJsonValues = size_t{1} << 16;
inline constexpr char kTooManyJsonValues[] = "more than 65536 values in the JSON of one request";
static_assert(kMaxJsonValues == 65536);

struct JsonTree {
  // kIds: a list of at least kMinIds integers from 0 to 2^32 - 1 and nothing else.
  enum class Kind : uint8_t { kNull, kBool, kInteger, kFloat, kText, kList, kObject, kIds };
  // 64 prompts with fewer ids each are within kMaxJsonValues.
  static constexpr size_t kMinIds = 512;

  Kind kind = Kind::kNull;
  int64_t integer = 0;                 // kInteger, and kBool as 0 or 1
  double number = 0;                   // kInteger and kFloat
  std::string text = {};               // kText; for kFloat, how it was written
  std::vector<JsonTree> items = {};    // of a list, or an object's values
  std::vector<std::string> keys = {};  // of the object's values; the last of equal ones counts
  std::vector<uint32_t> ids = {};      // of kIds

  bool is_null() const { return kind == Kind::kNull; }
  bool is_text() const { return kind == Kind::kText; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_object() const { return kind == Kind::kObject; }
  bool is_number() const { return kind == Kind::kInteger || kind == Kind::kFloat; }
  // The member of an object; null if there is none or it is null.
  const JsonTree* Find(absl::string_view key) const;
};

// Objects and lists may be nested `max_depth` deep. INVALID_ARGUMENT says what is wrong.
// `*num_values_left` is how many values there may be; afterwards, how many more.
absl::StatusOr<JsonTree> ParseJsonTree(std::string_view text, size_t* num_values_left,
                                       size_t max_depth = kMaxJsonDepth);

std::string ToJson(const JsonTree& tree);

// About how long ToJson's text is.
size_t NumBytes(const JsonTree& tree);

// To make one by hand.
JsonTree BoolTree(bool value);
JsonTree TextTree(std::string text);
JsonTree NewList();
JsonTree NewObject();
void AddMember(JsonTree* object, std::string key, JsonTree value);

}  // namespace quire

#include "server/surfaces/openai/json_tree.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/json/json_events.h"
#include "engine/json/parse_json.h"
#include "server/observe/log/json_text.h"

namespace quire {

namespace {

constexpr char kTooMany[] = "more than 65536 values in the JSON of one request";
static_assert(kMaxBodyValues == 65536);

// Takes the parser's events; a list or object is placed when it is closed.
class TreeBuilder : public JsonEvents {
 public:
  explicit TreeBuilder(size_t* num_values) : num_values_(*num_values) {}

  JsonTree TakeRoot() { return std::move(root_); }

  bool null() { return Add({}); }
  bool boolean(bool value) { return Add({.kind = JsonTree::Kind::kBool, .integer = value}); }
  bool number_integer(int64_t value) {
    if (MayBeIds() && value >= 0 && value <= UINT32_MAX) {
      open_.back().ids.push_back(static_cast<uint32_t>(value));
      return true;
    }
    return Add(
        {.kind = JsonTree::Kind::kInteger, .integer = value, .number = static_cast<double>(value)});
  }
  bool number_unsigned(uint64_t value) {
    if (value <= INT64_MAX) return number_integer(static_cast<int64_t>(value));
    return number_float(static_cast<double>(value), absl::StrCat(value));
  }
  bool number_float(double value, const std::string& text) {
    return Add({.kind = JsonTree::Kind::kFloat, .number = value, .text = text});
  }
  bool string(std::string& value) {
    return Add({.kind = JsonTree::Kind::kText, .text = std::move(value)});
  }
  bool key(std::string& value) {
    open_.back().keys.push_back(std::move(value));
    return Count();
  }
  bool start_object(size_t) { return Open(JsonTree::Kind::kObject); }
  bool start_array(size_t) { return Open(JsonTree::Kind::kList); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }

 private:
  bool Count() { return ++num_values_ <= kMaxBodyValues || Fail(kTooMany); }

  // The innermost list has had nothing but ids so far: they are values when something else comes.
  bool MayBeIds() const {
    return !open_.empty() && open_.back().is_list() && open_.back().items.empty();
  }

  bool MakeValues(const std::vector<uint32_t>& ids) {
    for (const uint32_t id : ids) {
      if (!Count()) return false;
      open_.back().items.push_back(
          {.kind = JsonTree::Kind::kInteger, .integer = id, .number = static_cast<double>(id)});
    }
    return true;
  }
  bool EndIds() { return !MayBeIds() || MakeValues(std::exchange(open_.back().ids, {})); }

  bool Open(JsonTree::Kind kind) {
    if (!EndIds() || !Enter() || !Count()) return false;
    open_.push_back({.kind = kind});
    return true;
  }

  bool Close() {
    if (open_.back().ids.size() >= JsonTree::kMinIds) {
      open_.back().kind = JsonTree::Kind::kIds;
    } else if (!EndIds()) {
      return false;
    }
    JsonTree closed = std::move(open_.back());
    open_.pop_back();
    Leave();
    Place(std::move(closed));
    return true;
  }

  bool Add(JsonTree value) {
    if (!EndIds() || !Count()) return false;
    Place(std::move(value));
    return true;
  }

  void Place(JsonTree value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else {
      open_.back().items.push_back(std::move(value));
    }
  }

  size_t& num_values_;
  std::vector<JsonTree> open_;  // lists and objects that are not closed yet, outermost first
  JsonTree root_;
};

void AppendJson(const JsonTree& tree, std::string* out) {
  switch (tree.kind) {
    case JsonTree::Kind::kNull:
      out->append("null");
      return;
    case JsonTree::Kind::kBool:
      out->append(tree.integer != 0 ? "true" : "false");
      return;
    case JsonTree::Kind::kInteger:
      absl::StrAppend(out, tree.integer);
      return;
    case JsonTree::Kind::kFloat:
      out->append(tree.text);
      return;
    case JsonTree::Kind::kText:
      out->append(JsonString(tree.text));
      return;
    case JsonTree::Kind::kIds:
      absl::StrAppend(out, "[", absl::StrJoin(tree.ids, ", "), "]");
      return;
    case JsonTree::Kind::kList:
    case JsonTree::Kind::kObject:
      break;
  }
  out->push_back(tree.is_list() ? '[' : '{');
  for (size_t i = 0; i < tree.items.size(); ++i) {
    if (i > 0) out->append(", ");
    if (tree.is_object()) absl::StrAppend(out, JsonString(tree.keys[i]), ": ");
    AppendJson(tree.items[i], out);
  }
  out->push_back(tree.is_list() ? ']' : '}');
}

}  // namespace

const JsonTree* JsonTree::Find(absl::string_view key) const {
  for (size_t i = keys.size(); i > 0; --i) {
    if (keys[i - 1] == key) return items[i - 1].is_null() ? nullptr : &items[i - 1];
  }
  return nullptr;
}

absl::StatusOr<JsonTree> ParseJsonTree(std::string_view text, size_t* num_values) {
  TreeBuilder builder(num_values);
  if (ReadJsonEvents(text, &builder)) return builder.TakeRoot();
  return absl::InvalidArgumentError(absl::StrCat("the body is no JSON: ", builder.error()));
}

std::string ToJson(const JsonTree& tree) {
  std::string json;
  AppendJson(tree, &json);
  return json;
}

JsonTree TextTree(std::string text) {
  return {.kind = JsonTree::Kind::kText, .text = std::move(text)};
}

void AddMember(JsonTree* object, std::string key, JsonTree value) {
  object->keys.push_back(std::move(key));
  object->items.push_back(std::move(value));
}

}  // namespace quire

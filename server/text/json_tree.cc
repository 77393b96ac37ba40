#include "server/text/json_tree.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/json/parse_json.h"
#include "server/text/json_text.h"

namespace quire {

namespace {

// Takes the parser's events; a list or object is placed when it is closed.
class TreeBuilder : public JsonEvents {
 public:
  TreeBuilder(size_t* num_values_left, size_t max_depth)
      : JsonEvents(max_depth), num_values_left_(*num_values_left) {}

  JsonTree TakeRoot() { return std::move(root_); }

  bool null() { return Add({}); }
  bool boolean(bool value) { return Add(BoolTree(value)); }
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
  bool string(std::string& value) { return Add(TextTree(std::move(value))); }
  bool key(std::string& value) {
    open_.back().keys.push_back(std::move(value));
    return Count();
  }
  bool start_object(size_t) { return Open(JsonTree::Kind::kObject); }
  bool start_array(size_t) { return Open(JsonTree::Kind::kList); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }

 private:
  bool Count() {
    if (num_values_left_ == 0) return Fail(kTooManyJsonValues);
    --num_values_left_;
    return true;
  }

  // The innermost list has had only ids so far. They become values when something else comes.
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

  size_t& num_values_left_;
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

absl::StatusOr<JsonTree> ParseJsonTree(std::string_view text, size_t* num_values_left,
                                       size_t max_depth) {
  TreeBuilder builder(num_values_left, max_depth);
  if (ReadJsonEvents(text, &builder)) return builder.TakeRoot();
  return absl::InvalidArgumentError(builder.error());
}

std::string ToJson(const JsonTree& tree) {
  std::string json;
  AppendJson(tree, &json);
  return json;
}

size_t NumBytes(const JsonTree& tree) {
  constexpr size_t kValueBytes = 4;  // with what stands around it
  size_t num_bytes = kValueBytes + tree.text.size() + kValueBytes * tree.ids.size();
  for (const std::string& key : tree.keys) num_bytes += kValueBytes + key.size();
  for (const JsonTree& item : tree.items) num_bytes += NumBytes(item);
  return num_bytes;
}

JsonTree BoolTree(bool value) { return {.kind = JsonTree::Kind::kBool, .integer = value}; }

JsonTree TextTree(std::string text) {
  return {.kind = JsonTree::Kind::kText, .text = std::move(text)};
}

JsonTree NewList() { return {.kind = JsonTree::Kind::kList}; }

JsonTree NewObject() { return {.kind = JsonTree::Kind::kObject}; }

void AddMember(JsonTree* object, std::string key, JsonTree value) {
  object->keys.push_back(std::move(key));
  object->items.push_back(std::move(value));
}

}  // namespace quire

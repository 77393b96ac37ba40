#include "server/surfaces/openai/field_reader.h"

#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "server/request/field_error.h"

namespace quire {

const JsonTree* FieldReader::Find(absl::string_view key) const {
  const JsonTree* member = object_.Find(key);
  if (member != nullptr) is_read_[IndexOf(*member)] = true;
  return member;
}

bool FieldReader::Fail(absl::string_view key, absl::string_view sentence) {
  if (status_.ok()) status_ = InvalidField(absl::StrCat(prefix_, key), sentence);
  return false;
}

void FieldReader::Refuse(absl::string_view key, absl::string_view sentence) {
  if (Find(key) != nullptr) Fail(key, sentence);
}

void FieldReader::RefuseUnlessEmpty(absl::string_view key, absl::string_view sentence) {
  const JsonTree* value = Find(key);
  const bool is_empty = value == nullptr || (value->is_text() && value->text.empty());
  if (!is_empty) Fail(key, sentence);
}

void FieldReader::RefuseUnlessFalse(absl::string_view key, absl::string_view sentence) {
  if (Bool(key).value_or(false)) Fail(key, sentence);
}

void FieldReader::RefuseName(absl::string_view key, absl::string_view ours) {
  Refuse(key, absl::StrCat("is not known here; did you mean ", ours, "?"));
}

std::vector<std::string> FieldReader::Unread() const {
  std::vector<std::string> unread;
  absl::flat_hash_set<absl::string_view> seen;  // of equal names the last counts
  for (size_t i = object_.keys.size(); i-- > 0;) {
    if (!seen.insert(object_.keys[i]).second) continue;
    if (!is_read_[i] && !object_.items[i].is_null()) unread.push_back(object_.keys[i]);
  }
  std::reverse(unread.begin(), unread.end());
  return unread;
}

std::optional<int64_t> FieldReader::Int(absl::string_view key) {
  const JsonTree* value = Find(key);
  if (value == nullptr) return std::nullopt;
  constexpr double kExact = 9e15;
  if (value->kind == JsonTree::Kind::kInteger) return value->integer;
  if (value->kind == JsonTree::Kind::kFloat && value->number > -kExact && value->number < kExact &&
      static_cast<double>(static_cast<int64_t>(value->number)) == value->number) {
    return static_cast<int64_t>(value->number);
  }
  Fail(key, "is not an integer");
  return std::nullopt;
}

std::optional<double> FieldReader::Number(absl::string_view key) {
  const JsonTree* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return value->number;
  Fail(key, "is not a number");
  return std::nullopt;
}

std::optional<float> FieldReader::Float(absl::string_view key) {
  const std::optional<double> number = Number(key);
  if (!number.has_value()) return std::nullopt;
  return static_cast<float>(*number);
}

std::optional<bool> FieldReader::Bool(absl::string_view key) {
  const JsonTree* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->kind == JsonTree::Kind::kBool) return value->integer != 0;
  Fail(key, "is neither true nor false");
  return std::nullopt;
}

std::optional<std::string> FieldReader::Text(absl::string_view key) {
  const JsonTree* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_text()) return value->text;
  Fail(key, "is not a text");
  return std::nullopt;
}

std::vector<std::string> FieldReader::Texts(absl::string_view key) {
  const JsonTree* value = Find(key);
  if (value == nullptr) return {};
  if (value->is_text()) return {value->text};
  std::vector<std::string> texts;
  for (const JsonTree& item : value->items) {
    if (item.is_text()) texts.push_back(item.text);
  }
  if (!value->is_list() || texts.size() != value->items.size()) {
    Fail(key, "is neither a text nor a list of texts");
  }
  return texts;
}

std::vector<uint32_t> FieldReader::TokenIds(absl::string_view key) {
  const JsonTree* value = Find(key);
  if (value == nullptr) return {};
  std::optional<std::vector<uint32_t>> ids = ToTokenIds(*value);
  if (!ids.has_value()) Fail(key, "is not a list of token ids");
  return std::move(ids).value_or(std::vector<uint32_t>());
}

std::string RequiredText(FieldReader& fields, const JsonTree& object, const std::string& field,
                         absl::string_view key) {
  const JsonTree* text = object.Find(key);
  if (text != nullptr && text->is_text() && !text->text.empty()) return text->text;
  fields.Fail(absl::StrCat(field, ".", key), "is missing, or no text");
  return "";
}

std::optional<std::vector<uint32_t>> ToTokenIds(const JsonTree& list) {
  if (list.kind == JsonTree::Kind::kIds) return list.ids;
  if (!list.is_list()) return std::nullopt;
  std::vector<uint32_t> ids;
  ids.reserve(list.items.size());
  for (const JsonTree& item : list.items) {
    if (item.kind != JsonTree::Kind::kInteger || item.integer < 0 ||
        item.integer > std::numeric_limits<uint32_t>::max()) {
      return std::nullopt;
    }
    ids.push_back(static_cast<uint32_t>(item.integer));
  }
  return ids;
}

}  // namespace quire

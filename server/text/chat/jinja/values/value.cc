#include "server/text/chat/jinja/values/value.h"

#include <algorithm>

#include "kernels/base/check.h"
#include "server/text/chat/jinja/values/error.h"
#include "server/text/chat/jinja/values/operators.h"

namespace quire::jinja {
namespace {

// From this many entries on a dict is searched through its index.
constexpr size_t kIndexedSize = 16;

size_t SaturatingAdd(size_t a, size_t b) {
  size_t sum;
  return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

}  // namespace

Value::Value(const Value&) = default;
Value::Value(Value&&) noexcept = default;
Value& Value::operator=(const Value&) = default;
Value& Value::operator=(Value&&) noexcept = default;
Value::~Value() = default;

Value Value::UndefinedNamed(std::string what) {
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(std::move(what))};
  return value;
}

Integer Value::integer() const {
  if (is_bool()) return boolean() ? 1 : 0;
  return std::get<Integer>(data_);
}

double Value::number() const {
  return is_float() ? std::get<double>(data_) : static_cast<double>(integer());
}

size_t Value::depth() const {
  if (list() != nullptr) return list()->depth;
  if (dict() != nullptr) return dict()->depth();
  if (object() != nullptr) return object()->depth();
  return 0;
}

size_t Value::weight() const {
  if (text() != nullptr) return 1 + text()->cost_bytes() / kBytesPerStep;
  if (list() != nullptr) return list()->weight;
  if (dict() != nullptr) return dict()->weight();
  return 1;
}

std::string_view Value::type_name() const {
  if (is_undefined()) return "undefined";
  if (is_none()) return "None";
  if (is_bool()) return "bool";
  if (is_float()) return "float";
  if (is_integer()) return "int";
  if (text() != nullptr) return "str";
  if (dict() != nullptr) return "dict";
  if (object() != nullptr) return object()->type_name();
  switch (list()->kind) {
    case ListKind::kList:
      return "list";
    case ListKind::kTuple:
      return "tuple";
    case ListKind::kRange:
      return "range";
    case ListKind::kDictKeys:
      return "dict_keys";
    case ListKind::kDictValues:
      return "dict_values";
    case ListKind::kDictItems:
      return "dict_items";
    case ListKind::kGenerator:
      break;
  }
  return "generator";
}

List::List(ListKind list_kind, std::vector<Value> list_items)
    : kind(list_kind), items(std::move(list_items)) {
  for (const Value& item : items) {
    depth = std::max(depth, item.depth() + 1);
    weight = SaturatingAdd(weight, item.weight());
  }
}

std::optional<size_t> Dict::IndexOf(std::string_view key) const {
  if (!index_.empty()) {
    auto found = index_.find(key);
    return found == index_.end() ? std::nullopt : std::optional<size_t>(found->second);
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Text* text = entries_[i].first.text();
    if (text != nullptr && text->bytes() == key) return i;
  }
  return std::nullopt;
}

std::optional<size_t> Dict::IndexOf(const Value& key) const {
  if (key.text() != nullptr) return IndexOf(key.text()->bytes());
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (Equals(entries_[i].first, key)) return i;
  }
  return std::nullopt;
}

const Value* Dict::Find(std::string_view key) const {
  const std::optional<size_t> index = IndexOf(key);
  return index ? &entries_[*index].second : nullptr;
}

const Value* Dict::Find(const Value& key) const {
  const std::optional<size_t> index = IndexOf(key);
  return index ? &entries_[*index].second : nullptr;
}

void Dict::Set(Value key, Value value) {
  depth_ = std::max(depth_, value.depth() + 1);
  weight_ = SaturatingAdd(weight_, SaturatingAdd(key.weight(), value.weight()));
  if (const std::optional<size_t> index = IndexOf(key)) {
    entries_[*index].second = std::move(value);
    return;
  }
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() < kIndexedSize) return;
  const size_t first_new = index_.empty() ? 0 : entries_.size() - 1;
  for (size_t i = first_new; i < entries_.size(); ++i) {
    const Text* text = entries_[i].first.text();
    if (text != nullptr) index_.emplace(text->bytes(), i);
  }
}

absl::StatusOr<Value> Object::Call(Runtime&, const Arguments&) {
  return Error("a ", type_name(), " cannot be called");
}

absl::StatusOr<Value> Object::Attribute(Runtime&, std::string_view name) {
  return Value::UndefinedNamed(Concat(type_name(), " has no attribute '", name, "'"));
}

}  // namespace quire::jinja

#include "server/text/chat/jinja/values/operators.h"

#include <algorithm>
#include <vector>

#include "kernels/base/status_macros.h"
#include "server/text/byte_search.h"
#include "server/text/chat/jinja/values/error.h"
#include "server/text/utf8.h"

namespace quire::jinja {
namespace {

bool ListsEqual(const List& a, const List& b) {
  if (&a == &b) return true;
  if (a.kind != b.kind || a.kind == ListKind::kGenerator) return false;
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), Equals);
}

bool DictsEqual(const Dict& a, const Dict& b) {
  if (&a == &b) return true;
  if (a.size() != b.size()) return false;
  return std::all_of(a.entries().begin(), a.entries().end(), [&b](const Dict::Entry& entry) {
    const Value* other = b.Find(entry.first);
    return other != nullptr && Equals(entry.second, *other);
  });
}

// Whether Python could look for the tuple in a dict: it holds scalars and such tuples only.
bool IsHashableTuple(const Value& value) {
  const List* list = value.list();
  if (list == nullptr || list->kind != ListKind::kTuple) return false;
  return std::all_of(list->items.begin(), list->items.end(), [](const Value& item) {
    return IsHashableTuple(item) || CheckHashable(item).ok();
  });
}

template <typename T>
int Order(const T& a, const T& b) {
  return a < b ? -1 : (b < a ? 1 : 0);
}

absl::StatusOr<Value> Characters(Runtime& runtime, const Text& text) {
  std::vector<Value> characters;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at + CharacterAt(text.bytes(), at).size;
    ASSIGN_OR_RETURN(Value character, runtime.NewText(text.Slice(at, end)));
    characters.push_back(std::move(character));
    at = end;
  }
  return runtime.NewList(ListKind::kList, std::move(characters));
}

}  // namespace

absl::Status UndefinedError(const Value& value) {
  const auto& what = value.undefined()->what;
  return Error(what == nullptr ? "a value is undefined" : *what);
}

bool IsTrue(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_float()) return value.number() != 0;
  if (value.is_integer()) return value.integer() != 0;
  if (value.text() != nullptr) return !value.text()->empty();
  if (value.dict() != nullptr) return value.dict()->size() > 0;
  if (value.list() != nullptr) return !value.list()->has_length() || !value.list()->items.empty();
  return true;
}

bool Equals(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return a.integer() == b.integer();
    return a.number() == b.number();
  }
  if (a.text() != nullptr && b.text() != nullptr) return a.text()->bytes() == b.text()->bytes();
  if (a.list() != nullptr && b.list() != nullptr) return ListsEqual(*a.list(), *b.list());
  if (a.dict() != nullptr && b.dict() != nullptr) return DictsEqual(*a.dict(), *b.dict());
  if (a.object() != nullptr) return a.object() == b.object();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

absl::StatusOr<bool> CheckedEquals(Runtime& runtime, const Value& a, const Value& b) {
  RETURN_IF_ERROR(runtime.Charge(std::min(a.weight(), b.weight())));
  return Equals(a, b);
}

absl::StatusOr<int> Compare(Runtime& runtime, const Value& a, const Value& b) {
  RETURN_IF_ERROR(runtime.Charge(1));
  if (a.is_undefined()) return UndefinedError(a);
  if (b.is_undefined()) return UndefinedError(b);
  if (a.is_integer() && b.is_integer()) return Order(a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return Order(a.number(), b.number());
  if (a.text() != nullptr && b.text() != nullptr) {
    RETURN_IF_ERROR(runtime.Charge(std::min(a.weight(), b.weight())));
    return Order(a.text()->bytes(), b.text()->bytes());
  }
  if (a.list() != nullptr && b.list() != nullptr && a.list()->kind == b.list()->kind &&
      a.list()->kind <= ListKind::kTuple) {
    const std::vector<Value>& left = a.list()->items;
    const std::vector<Value>& right = b.list()->items;
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      ASSIGN_OR_RETURN(const bool equal, CheckedEquals(runtime, left[i], right[i]));
      if (!equal) return Compare(runtime, left[i], right[i]);
    }
    return Order(left.size(), right.size());
  }
  return Error("cannot order a ", a.type_name(), " and a ", b.type_name());
}

absl::StatusOr<bool> Contains(Runtime& runtime, const Value& container, const Value& item) {
  if (const Text* text = container.text()) {
    if (item.is_undefined()) return UndefinedError(item);
    if (item.text() == nullptr) {
      return Error("'in' a str needs a str, not a ", item.type_name());
    }
    RETURN_IF_ERROR(runtime.Charge(container.weight()));
    return FindBytes(text->bytes(), item.text()->bytes(), 0) != std::string_view::npos;
  }
  if (const Dict* dict = container.dict()) {
    if (IsHashableTuple(item)) return false;  // keys are scalars
    RETURN_IF_ERROR(CheckHashable(item));
    return dict->Find(item) != nullptr;
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<const List> list, Iterate(runtime, container));
  for (const Value& other : list->items) {
    RETURN_IF_ERROR(runtime.Charge(std::min(other.weight(), item.weight())));
    if (Equals(other, item)) return true;
  }
  return false;
}

absl::StatusOr<std::shared_ptr<const List>> Iterate(Runtime& runtime, const Value& value) {
  static const auto* const kEmpty = new std::shared_ptr<const List>(
      std::make_shared<const List>(ListKind::kTuple, std::vector<Value>()));
  if (value.is_undefined()) return *kEmpty;
  if (const List* list = value.list()) {
    if (list->kind != ListKind::kGenerator) return value.shared_list();
    if (list->consumed) return *kEmpty;
    list->consumed = true;
    return value.shared_list();
  }
  if (const Text* text = value.text()) {
    ASSIGN_OR_RETURN(const Value characters, Characters(runtime, *text));
    return characters.shared_list();
  }
  if (const Dict* dict = value.dict()) {
    std::vector<Value> keys;
    keys.reserve(dict->size());
    for (const Dict::Entry& entry : dict->entries()) keys.push_back(entry.first);
    ASSIGN_OR_RETURN(const Value list, runtime.NewList(ListKind::kList, std::move(keys)));
    return list.shared_list();
  }
  return Error("a ", value.type_name(), " cannot be iterated");
}

absl::StatusOr<size_t> Length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.text() != nullptr) return CountCharacters(value.text()->bytes());
  if (value.dict() != nullptr) return value.dict()->size();
  if (value.list() != nullptr && value.list()->has_length()) return value.list()->items.size();
  return Error("a ", value.type_name(), " has no length");
}

absl::Status CheckHashable(const Value& value) {
  if (value.list() == nullptr && value.dict() == nullptr) return absl::OkStatus();
  return Error("a ", value.type_name(), " cannot be the key of a dict");
}

}  // namespace quire::jinja

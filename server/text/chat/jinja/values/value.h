// Value: one Jinja value. Small and cheap to copy; strings, lists and dicts are shared and never
// change once they are in a Value, objects (namespaces, loops, macros, methods) may. Lives inside
// one render, on one thread. Invariant: depth() is bounded by Runtime, so that walking or
// destroying a value cannot exhaust the stack.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "server/text/chat/jinja/values/text.h"

namespace quire::jinja {

// Looking at this much text counts as one step of the render budget.
inline constexpr size_t kBytesPerStep = 16;

// Python's integers have no limit; 128 bits hold every JSON integer. Overflow is an error.
__extension__ typedef __int128 Integer;

struct List;
class Dict;
class Object;

struct Undefined {
  // The name that was looked up in vain, for the message when the value is used; may be null.
  std::shared_ptr<const std::string> what;
};
struct None {};

class Value {
 public:
  Value() : data_(Undefined{}) {}
  // Out of line: inlined everywhere they are most of the library's code.
  Value(const Value&);
  Value(Value&&) noexcept;
  Value& operator=(const Value&);
  Value& operator=(Value&&) noexcept;
  ~Value();
  Value(None none) : data_(none) {}                                    // NOLINT
  Value(bool value) : data_(value) {}                                  // NOLINT
  Value(Integer value) : data_(value) {}                               // NOLINT
  Value(double value) : data_(value) {}                                // NOLINT
  Value(std::shared_ptr<const Text> text) : data_(std::move(text)) {}  // NOLINT
  Value(std::shared_ptr<const List> list) : data_(std::move(list)) {}  // NOLINT
  Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}  // NOLINT
  Value(std::shared_ptr<Object> object) : data_(std::move(object)) {}  // NOLINT
  explicit Value(Text text) : data_(std::make_shared<const Text>(std::move(text))) {}
  static Value UndefinedNamed(std::string what);
  static Value FromSize(size_t size) { return Value(static_cast<Integer>(size)); }

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  // Python's bool is an int.
  bool is_integer() const { return is_bool() || std::holds_alternative<Integer>(data_); }
  bool is_number() const { return is_integer() || is_float(); }

  // The Integer of an is_integer() value; the double of an is_number() value.
  Integer integer() const;
  double number() const;
  bool boolean() const { return std::get<bool>(data_); }

  // Null when it is something else.
  const Text* text() const { return Get<const Text>(); }
  const List* list() const { return Get<const List>(); }
  const Dict* dict() const { return Get<const Dict>(); }
  Object* object() const { return Get<Object>(); }
  const Undefined* undefined() const { return std::get_if<Undefined>(&data_); }

  // The same, to hold on to.
  const std::shared_ptr<const List>& shared_list() const {
    return std::get<std::shared_ptr<const List>>(data_);
  }

  // Nesting of the containers inside: 0 for a scalar.
  size_t depth() const;

  // Cost in steps of walking all of it: items, and text at kBytesPerStep bytes. Shared parts count
  // each time.
  size_t weight() const;

  // Python's name of its type, for messages.
  std::string_view type_name() const;

 private:
  template <typename T>
  T* Get() const {
    const auto* pointer = std::get_if<std::shared_ptr<T>>(&data_);
    return pointer == nullptr ? nullptr : pointer->get();
  }

  std::variant<Undefined, None, bool, Integer, double, std::shared_ptr<const Text>,
               std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<Object>>
      data_;
};

// Python's sequence types differ in printing, indexing and truth; all hold their items here.
enum class ListKind { kList, kTuple, kRange, kDictKeys, kDictValues, kDictItems, kGenerator };

struct List {
  List(ListKind list_kind, std::vector<Value> list_items);

  ListKind kind;
  std::vector<Value> items;
  size_t depth = 1;
  size_t weight = 1;
  mutable bool consumed = false;  // A generator yields its items once.

  bool indexable() const { return kind <= ListKind::kRange; }
  bool has_length() const { return kind != ListKind::kGenerator; }
};

// An insertion-ordered dict. Keys are scalars (CheckHashable).
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  size_t depth() const { return depth_; }
  size_t weight() const { return weight_; }

  // Null when absent.
  const Value* Find(std::string_view key) const;
  const Value* Find(const Value& key) const;

  void Set(Value key, Value value);

 private:
  std::optional<size_t> IndexOf(std::string_view key) const;
  std::optional<size_t> IndexOf(const Value& key) const;

  std::vector<Entry> entries_;
  // Text keys by their bytes, which the entries own; filled once there are too many to compare one
  // by one.
  absl::flat_hash_map<std::string_view, size_t> index_;
  size_t depth_ = 1;
  size_t weight_ = 1;
};

class Runtime;
struct Arguments;

// A value with behaviour: a namespace, a loop, a macro, a function, a bound method.
class Object {
 public:
  virtual ~Object() = default;

  virtual std::string_view type_name() const = 0;
  virtual size_t depth() const { return 0; }
  virtual bool callable() const { return false; }
  virtual absl::StatusOr<Value> Call(Runtime& runtime, const Arguments& arguments);
  // Undefined when there is no such attribute. May compute, as loop.last does.
  virtual absl::StatusOr<Value> Attribute(Runtime& runtime, std::string_view name);
};

}  // namespace quire::jinja

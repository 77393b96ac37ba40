#include "server/text/chat/jinja/builtins/attributes.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/values/error.h"
#include "server/text/chat/jinja/values/operators.h"
#include "server/text/utf8.h"

namespace quire::jinja {
namespace {

class BoundMethod : public Object {
 public:
  BoundMethod(Value self, const Method* method) : self_(std::move(self)), method_(method) {}

  std::string_view type_name() const override { return "method"; }
  size_t depth() const override { return self_.depth() + 1; }
  bool callable() const override { return true; }

  absl::StatusOr<Value> Call(Runtime& runtime, const Arguments& arguments) override {
    absl::StatusOr<Value> result = method_->call(runtime, self_, arguments);
    if (result.ok()) return result;
    return Prefixed(result.status(), self_.type_name(), ".", method_->name, "(): ");
  }

 private:
  const Value self_;
  const Method* const method_;
};

// Methods of Python's list and dict that change it, which the immutable sandbox refuses.
bool IsMutator(const Value& object, std::string_view name) {
  static constexpr std::string_view kListMutators[] = {"append", "clear",  "extend",  "insert",
                                                       "pop",    "remove", "reverse", "sort"};
  static constexpr std::string_view kDictMutators[] = {"clear", "pop", "popitem", "setdefault",
                                                       "update"};
  if (object.dict() != nullptr) {
    return std::find(std::begin(kDictMutators), std::end(kDictMutators), name) !=
           std::end(kDictMutators);
  }
  if (object.list() != nullptr && object.list()->kind == ListKind::kList) {
    return std::find(std::begin(kListMutators), std::end(kListMutators), name) !=
           std::end(kListMutators);
  }
  return false;
}

const Method* FindMethod(const Value& object, std::string_view name) {
  if (object.text() != nullptr) return FindTextMethod(name);
  if (object.dict() != nullptr) return FindDictMethod(name);
  if (object.list() != nullptr && object.list()->indexable()) return FindListMethod(name);
  return nullptr;
}

Value NotFound(const Value& object, std::string_view name) {
  return Value::UndefinedNamed(Concat("a ", object.type_name(), " has no attribute '", name, "'"));
}

// A method, an attribute of an object, or null.
absl::StatusOr<std::optional<Value>> FindOwnAttribute(Runtime& runtime, const Value& object,
                                                      std::string_view name) {
  if (Object* const own = object.object()) {
    ASSIGN_OR_RETURN(Value value, own->Attribute(runtime, name));
    return value;
  }
  if (const Method* method = FindMethod(object, name)) {
    RETURN_IF_ERROR(runtime.Charge(1));
    return Value(std::make_shared<BoundMethod>(object, method));
  }
  if (IsMutator(object, name)) {
    return Value::UndefinedNamed(Concat("templates may not change values: ", object.type_name(),
                                        ".", name, "() is not available"));
  }
  return std::nullopt;
}

std::optional<size_t> NormalIndex(Integer index, size_t size) {
  if (index < 0) index += static_cast<Integer>(size);
  if (index < 0 || index >= static_cast<Integer>(size)) return std::nullopt;
  return static_cast<size_t>(index);
}

absl::StatusOr<std::optional<Value>> FindItem(Runtime& runtime, const Value& object,
                                              const Value& key) {
  if (const Dict* dict = object.dict()) {
    const Value* value = CheckHashable(key).ok() ? dict->Find(key) : nullptr;
    return value == nullptr ? std::nullopt : std::optional<Value>(*value);
  }
  if (!key.is_integer()) return std::nullopt;
  if (const List* list = object.list(); list != nullptr && list->indexable()) {
    const std::optional<size_t> index = NormalIndex(key.integer(), list->items.size());
    return index ? std::optional<Value>(list->items[*index]) : std::nullopt;
  }
  if (const Text* text = object.text()) {
    RETURN_IF_ERROR(runtime.Charge(object.weight()));
    const std::optional<size_t> index = NormalIndex(key.integer(), CountCharacters(text->bytes()));
    if (!index) return std::nullopt;
    const size_t begin = OffsetOfCharacter(text->bytes(), *index);
    ASSIGN_OR_RETURN(Value character, runtime.NewText(text->Slice(
                                          begin, begin + CharacterAt(text->bytes(), begin).size)));
    return character;
  }
  return std::nullopt;
}

// Python's slice.indices(): where to start, and how many steps to take.
struct SliceRange {
  Integer start;
  size_t count;
};

SliceRange ResolveSlice(std::optional<Integer> start, std::optional<Integer> stop, Integer step,
                        size_t size) {
  const Integer length = static_cast<Integer>(size);
  const Integer lowest = step > 0 ? 0 : -1;
  const Integer highest = step > 0 ? length : length - 1;
  const auto clamp = [&](std::optional<Integer> bound, Integer fallback) {
    if (!bound) return fallback;
    const Integer shifted = *bound < 0 ? *bound + length : *bound;
    return std::clamp(shifted, lowest, highest);
  };
  const Integer first = clamp(start, step > 0 ? lowest : highest);
  const Integer last = clamp(stop, step > 0 ? highest : lowest);
  const Integer distance = step > 0 ? last - first : first - last;
  const Integer stride = step > 0 ? step : -step;
  const Integer count = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  return {first, static_cast<size_t>(count)};
}

absl::StatusOr<Value> SliceText(Runtime& runtime, const Text& text, const SliceRange& range,
                                Integer step) {
  if (range.count == 0) return Value(Text());
  const size_t first = static_cast<size_t>(range.start);
  if (step == 1) {
    const size_t begin = OffsetOfCharacter(text.bytes(), first);
    return runtime.NewText(
        text.Slice(begin, begin + OffsetOfCharacter(text.bytes().substr(begin), range.count)));
  }
  RETURN_IF_ERROR(runtime.Charge(text.size() / 8));
  std::vector<size_t> offsets;
  for (size_t at = 0; at < text.size(); at += CharacterAt(text.bytes(), at).size)
    offsets.push_back(at);
  offsets.push_back(text.size());
  Text slice;
  for (size_t i = 0; i < range.count; ++i) {
    const size_t index = static_cast<size_t>(range.start + static_cast<Integer>(i) * step);
    RETURN_IF_ERROR(runtime.Append(&slice, text, offsets[index], offsets[index + 1]));
  }
  return Value(std::move(slice));
}

absl::StatusOr<Value> SliceList(Runtime& runtime, const List& list, const SliceRange& range,
                                Integer step) {
  std::vector<Value> items;
  items.reserve(range.count);
  for (size_t i = 0; i < range.count; ++i) {
    items.push_back(list.items[static_cast<size_t>(range.start + static_cast<Integer>(i) * step)]);
  }
  return runtime.NewList(list.kind, std::move(items));
}

bool IsBound(const Value& value) { return value.is_none() || value.is_integer(); }

// Far beyond any size, and far from overflow.
constexpr Integer kFarIndex = Integer{1} << 62;

std::optional<Integer> Bound(const Value& value) {
  if (value.is_none()) return std::nullopt;
  return std::clamp(value.integer(), -kFarIndex, kFarIndex);
}

}  // namespace

absl::StatusOr<Value> GetAttribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.is_undefined()) return UndefinedError(object);
  ASSIGN_OR_RETURN(const std::optional<Value> own, FindOwnAttribute(runtime, object, name));
  if (own) return *own;
  if (const Dict* dict = object.dict()) {
    if (const Value* value = dict->Find(name)) return *value;
  }
  return NotFound(object, name);
}

absl::StatusOr<Value> GetItem(Runtime& runtime, const Value& object, const Value& key) {
  if (object.is_undefined()) return UndefinedError(object);
  ASSIGN_OR_RETURN(const std::optional<Value> item, FindItem(runtime, object, key));
  if (item) return *item;
  if (key.text() == nullptr)
    return Value::UndefinedNamed(Concat("a ", object.type_name(), " has no such item"));
  const std::string_view name = key.text()->bytes();
  ASSIGN_OR_RETURN(const std::optional<Value> own, FindOwnAttribute(runtime, object, name));
  return own ? *own : NotFound(object, name);
}

absl::StatusOr<Value> GetSlice(Runtime& runtime, const Value& object, const Value& start,
                               const Value& stop, const Value& step) {
  if (object.is_undefined()) return UndefinedError(object);
  const Text* text = object.text();
  const List* list = object.list();
  const bool can_slice = text != nullptr || (list != nullptr && list->indexable());
  if (!can_slice) return Error("a ", object.type_name(), " cannot be sliced");
  if (!IsBound(start) || !IsBound(stop) || !IsBound(step)) {
    return Error("the bounds of a slice must be int or None");
  }
  const Integer stride = Bound(step).value_or(1);
  if (stride == 0) return Error("a slice step cannot be zero");
  if (text != nullptr) RETURN_IF_ERROR(runtime.Charge(object.weight()));
  ASSIGN_OR_RETURN(const size_t size, Length(object));
  const SliceRange range = ResolveSlice(Bound(start), Bound(stop), stride, size);
  return text != nullptr ? SliceText(runtime, *text, range, stride)
                         : SliceList(runtime, *list, range, stride);
}

}  // namespace quire::jinja

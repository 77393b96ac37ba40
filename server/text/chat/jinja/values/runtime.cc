#include "server/text/chat/jinja/values/runtime.h"

#include <algorithm>

#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/values/error.h"

namespace quire::jinja {
namespace {

constexpr size_t kNamespaceSteps = 8;
constexpr size_t kTextSteps = 3;  // two allocations

absl::Status CheckDepth(size_t depth) {
  if (depth <= kMaxValueDepth) return absl::OkStatus();
  return Error("a value is nested more than ", kMaxValueDepth, " levels deep");
}

}  // namespace

absl::StatusOr<Value> Namespace::Attribute(Runtime&, std::string_view name) {
  const auto found = attributes_.find(std::string(name));
  if (found != attributes_.end()) return found->second;
  return Value::UndefinedNamed(Concat("namespace has no attribute '", name, "'"));
}

void Namespace::Set(std::string_view name, Value value) {
  attributes_.insert_or_assign(std::string(name), std::move(value));
}

Runtime::~Runtime() {
  for (const auto& entry : namespaces_) entry->Clear();
}

absl::Status Runtime::ChargeForWriting(const Value& value) {
  constexpr int kTimesAsLong = 4;  // as looking at it
  for (int i = 0; i < kTimesAsLong; ++i) RETURN_IF_ERROR(Charge(value.weight()));
  return absl::OkStatus();
}

absl::Status Runtime::CheckTextSize(size_t size_bytes) const {
  if (size_bytes <= max_text_bytes_) return absl::OkStatus();
  return Error("the template makes a text of more than ", max_text_bytes_, " bytes");
}

absl::Status Runtime::Append(Text* out, const Text& piece, size_t begin, size_t end) {
  const size_t size = end - begin;
  RETURN_IF_ERROR(CheckTextSize(out->size() + size));
  RETURN_IF_ERROR(Charge(1 + size / kBytesPerStep + std::min(size, piece.runs().size()) / 4));
  out->Append(piece, begin, end);
  return absl::OkStatus();
}

absl::Status Runtime::Append(Text* out, std::string_view piece, Origin origin) {
  RETURN_IF_ERROR(CheckTextSize(out->size() + piece.size()));
  RETURN_IF_ERROR(Charge(1 + piece.size() / kBytesPerStep));
  out->Append(piece, origin);
  return absl::OkStatus();
}

absl::StatusOr<Value> Runtime::NewText(Text text) {
  RETURN_IF_ERROR(CheckTextSize(text.size()));
  RETURN_IF_ERROR(Charge(kTextSteps + text.cost_bytes() / kBytesPerStep));
  return Value(std::move(text));
}

absl::StatusOr<Value> Runtime::NewText(std::string_view bytes, Origin origin) {
  return NewText(Text(bytes, origin));
}

absl::StatusOr<Value> Runtime::NewList(ListKind kind, std::vector<Value> items) {
  RETURN_IF_ERROR(Charge(1 + items.size()));
  auto list = std::make_shared<const List>(kind, std::move(items));
  RETURN_IF_ERROR(CheckDepth(list->depth));
  return Value(std::move(list));
}

absl::StatusOr<Value> Runtime::NewDict(Dict dict) {
  RETURN_IF_ERROR(Charge(1 + 2 * dict.size()));
  RETURN_IF_ERROR(CheckDepth(dict.depth()));
  return Value(std::make_shared<const Dict>(std::move(dict)));
}

absl::StatusOr<std::shared_ptr<Namespace>> Runtime::NewNamespace() {
  RETURN_IF_ERROR(Charge(kNamespaceSteps));
  namespaces_.push_back(std::make_shared<Namespace>());
  return namespaces_.back();
}

absl::Status Runtime::CheckEvaluation() {
  if (evaluation_depth_ > kMaxEvaluationDepth) {
    return Error("the template nests calls and blocks too deeply");
  }
  return Charge(1);
}

absl::Status Runtime::CheckCall() const {
  if (call_depth_ <= kMaxCallDepth) return absl::OkStatus();
  return Error("the template calls macros more than ", kMaxCallDepth, " levels deep");
}

}  // namespace quire::jinja

// Runtime: how much one render may still spend. Templates come with the model and are not trusted,
// so every evaluation, every copied byte, every new container and every level of nesting is
// accounted for here, and values are made only through it. One render, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/fuel.h"
#include "server/text/chat/jinja/values/text.h"
#include "server/text/chat/jinja/values/value.h"

namespace quire::jinja {

// The limit for the output and for any one string.
inline constexpr size_t kMaxTextBytes = size_t{64} << 20;

// Levels of evaluation at one time; keeps a render within a 256 KiB stack.
inline constexpr size_t kMaxEvaluationDepth = 240;
// Macro calls and recursive loops at one time.
inline constexpr size_t kMaxCallDepth = 32;
// Nesting of one value, from the request or made by the template.
inline constexpr size_t kMaxValueDepth = 64;

// Attributes that `set ns.name = value` may change.
class Namespace : public Object {
 public:
  std::string_view type_name() const override { return "Namespace"; }
  absl::StatusOr<Value> Attribute(Runtime& runtime, std::string_view name) override;
  void Set(std::string_view name, Value value);
  void Clear() { attributes_.clear(); }

 private:
  absl::flat_hash_map<std::string, Value> attributes_;
};

class Runtime {
 public:
  // `fuel` lives as long; `max_text_bytes` as for kMaxTextBytes.
  Runtime(Fuel* fuel, size_t max_text_bytes, std::time_t now)
      : fuel_(*fuel), max_text_bytes_(max_text_bytes), now_(now) {}
  ~Runtime();

  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  std::time_t now() const { return now_; }

  // Spends steps, or fails with Fuel's status once there are none.
  absl::Status Charge(size_t steps) {
    return fuel_.Burn(steps) ? absl::OkStatus() : fuel_.status();
  }
  // For all of `value`, written character by character.
  absl::Status ChargeForWriting(const Value& value);
  size_t max_text_bytes() const { return max_text_bytes_; }

  // Appends within the limits on steps and on the size of a text.
  absl::Status Append(Text* out, const Text& piece) { return Append(out, piece, 0, piece.size()); }
  absl::Status Append(Text* out, const Text& piece, size_t begin, size_t end);
  absl::Status Append(Text* out, std::string_view piece, Origin origin);

  // Makes values, charged by their size; an error when one is too large or nested too deeply.
  absl::StatusOr<Value> NewText(Text text);
  absl::StatusOr<Value> NewText(std::string_view bytes, Origin origin);
  absl::StatusOr<Value> NewList(ListKind kind, std::vector<Value> items);
  absl::StatusOr<Value> NewDict(Dict dict);
  absl::StatusOr<std::shared_ptr<Namespace>> NewNamespace();

  // A level of evaluation and a level of calls, for the time that the guard lives.
  class DepthGuard {
   public:
    explicit DepthGuard(size_t* depth) : depth_(depth) { ++*depth_; }
    ~DepthGuard() { --*depth_; }
    DepthGuard(const DepthGuard&) = delete;
    DepthGuard& operator=(const DepthGuard&) = delete;

   private:
    size_t* depth_;
  };
  DepthGuard EnterEvaluation() { return DepthGuard(&evaluation_depth_); }
  DepthGuard EnterCall() { return DepthGuard(&call_depth_); }
  // Spends one step and fails if too many guards are alive.
  absl::Status CheckEvaluation();
  absl::Status CheckCall() const;

  // The line that is being rendered, for messages.
  int line = 0;
  // The template called raise_exception(): its message is passed on as it is.
  bool raised_by_template = false;

 private:
  absl::Status CheckTextSize(size_t size_bytes) const;

  Fuel& fuel_;
  const size_t max_text_bytes_;
  const std::time_t now_;
  size_t evaluation_depth_ = 0;
  size_t call_depth_ = 0;
  // Namespaces can hold each other; emptied one by one at the end, which frees every cycle without
  // recursion.
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

}  // namespace quire::jinja

// ForStatement and the `loop` variable.
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/tree/statements.h"
#include "server/text/chat/jinja/values/error.h"

namespace quire::jinja {
namespace {

// Every iteration has a scope of its own.
constexpr size_t kIterationSteps = 8;

// `loop`: where a for statement stands. Items are tested by the loop's `if` only as far as they are
// asked for, as in Jinja, where the body may change what the next test sees.
class Loop : public Object, public std::enable_shared_from_this<Loop> {
 public:
  Loop(const ForStatement& statement, const std::shared_ptr<Scope>& scope,
       std::shared_ptr<const List> items, size_t depth0)
      : statement_(statement), scope_(scope), items_(std::move(items)), depth0_(depth0) {}

  std::string_view type_name() const override { return "loop"; }
  size_t depth() const override { return items_->depth + 1; }
  bool callable() const override { return statement_.recursive; }

  // Moves to the next item; false at the end.
  absl::StatusOr<bool> Advance(Runtime& runtime) {
    ASSIGN_OR_RETURN(const bool more, LookAhead(runtime));
    if (!more) return false;
    previous_ = current_;
    current_ = ahead_.front();
    ahead_.pop_front();
    ++index_;
    return true;
  }

  const Value& current() const { return *current_; }

  absl::StatusOr<Value> Attribute(Runtime& runtime, std::string_view name) override;
  absl::StatusOr<Value> Call(Runtime& runtime, const Arguments& arguments) override;

 private:
  // Tests items until one is found that is still to come.
  absl::StatusOr<bool> LookAhead(Runtime& runtime) {
    if (!ahead_.empty()) return true;
    return Pull(runtime);
  }

  // Finds one more item that is still to come.
  absl::StatusOr<bool> Pull(Runtime& runtime);

  absl::StatusOr<size_t> Length(Runtime& runtime) {
    while (true) {
      ASSIGN_OR_RETURN(const bool more, Pull(runtime));
      if (!more) return index_ + ahead_.size();
    }
  }

  absl::StatusOr<Value> Cycle(Runtime& runtime, const Arguments& arguments) const;
  absl::StatusOr<Value> Changed(Runtime& runtime, const Arguments& arguments);

  // loop.cycle and loop.changed.
  class BoundMethod;

  const ForStatement& statement_;
  const std::weak_ptr<Scope> scope_;
  const std::shared_ptr<const List> items_;
  const size_t depth0_;
  size_t next_ = 0;   // The first item that is not tested yet.
  size_t index_ = 0;  // The place of the current item, from 1.
  std::optional<Value> previous_;
  std::optional<Value> current_;
  std::deque<Value> ahead_;
  std::optional<Value> last_changed_;
};

class Loop::BoundMethod : public Object {
 public:
  BoundMethod(std::shared_ptr<Loop> loop, bool is_cycle)
      : loop_(std::move(loop)), is_cycle_(is_cycle) {}
  std::string_view type_name() const override { return "method"; }
  size_t depth() const override { return loop_->depth() + 1; }
  bool callable() const override { return true; }
  absl::StatusOr<Value> Call(Runtime& runtime, const Arguments& arguments) override {
    return is_cycle_ ? loop_->Cycle(runtime, arguments) : loop_->Changed(runtime, arguments);
  }

 private:
  const std::shared_ptr<Loop> loop_;
  const bool is_cycle_;
};

absl::StatusOr<bool> Loop::Pull(Runtime& runtime) {
  while (next_ < items_->items.size()) {
    const Value& item = items_->items[next_++];
    if (statement_.condition != nullptr) {
      const std::shared_ptr<Scope> scope = scope_.lock();
      if (scope == nullptr) return false;
      Text ignored;
      Context context{runtime, std::make_shared<Scope>(scope), &ignored};
      RETURN_IF_ERROR(statement_.target.Assign(context, item));
      ASSIGN_OR_RETURN(const Value chosen, statement_.condition->Evaluate(context));
      if (!IsTrue(chosen)) continue;
    }
    RETURN_IF_ERROR(runtime.Charge(kIterationSteps));
    ahead_.push_back(item);
    return true;
  }
  return false;
}

absl::StatusOr<Value> Loop::Attribute(Runtime& runtime, std::string_view name) {
  if (name == "index") return Value::FromSize(index_);
  if (name == "index0") return Value::FromSize(index_ - 1);
  if (name == "first") return Value(index_ == 1);
  if (name == "depth") return Value::FromSize(depth0_ + 1);
  if (name == "depth0") return Value::FromSize(depth0_);
  if (name == "cycle" || name == "changed") {
    return Value(std::make_shared<BoundMethod>(shared_from_this(), name == "cycle"));
  }
  if (name == "previtem") {
    return previous_ ? *previous_ : Value::UndefinedNamed("there is no previous item");
  }
  if (name == "last" || name == "nextitem") {
    ASSIGN_OR_RETURN(const bool more, LookAhead(runtime));
    if (name == "last") return Value(!more);
    return more ? ahead_.front() : Value::UndefinedNamed("there is no next item");
  }
  if (name == "length" || name == "revindex" || name == "revindex0") {
    ASSIGN_OR_RETURN(const size_t length, Length(runtime));
    if (name == "length") return Value::FromSize(length);
    return Value::FromSize(length - index_ + (name == "revindex" ? 1 : 0));
  }
  return Object::Attribute(runtime, name);
}

absl::StatusOr<Value> Loop::Cycle(Runtime&, const Arguments& arguments) const {
  if (arguments.positional.empty()) return Error("loop.cycle() needs an argument");
  return arguments.positional[(index_ - 1) % arguments.positional.size()];
}

absl::StatusOr<Value> Loop::Changed(Runtime& runtime, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Value value, runtime.NewList(ListKind::kTuple, arguments.positional));
  if (last_changed_) {
    ASSIGN_OR_RETURN(const bool equal, CheckedEquals(runtime, *last_changed_, value));
    if (equal) return Value(false);
  }
  last_changed_ = std::move(value);
  return Value(true);
}

absl::StatusOr<Value> Loop::Call(Runtime& runtime, const Arguments& arguments) {
  const std::shared_ptr<Scope> scope = scope_.lock();
  if (!statement_.recursive || scope == nullptr) {
    return Error("loop(...) may only be called inside of a 'recursive' loop");
  }
  ASSIGN_OR_RETURN(const BoundArguments bound, BoundArguments::Bind(arguments, {"iterable"}, 1));
  Text text;
  Context context{runtime, scope, &text};
  RETURN_IF_ERROR(statement_.Run(context, *bound[0], depth0_ + 1).status());
  return Value(std::move(text));
}

}  // namespace

absl::StatusOr<Flow> ForStatement::DoExecute(Context& context) const {
  ASSIGN_OR_RETURN(const Value items, iterable->Evaluate(context));
  return Run(context, items, 0);
}

absl::StatusOr<Flow> ForStatement::Run(Context& context, const Value& items, size_t depth0) const {
  ASSIGN_OR_RETURN(std::shared_ptr<const List> list, Iterate(context.runtime, items));
  const auto loop = std::make_shared<Loop>(*this, context.scope, std::move(list), depth0);
  bool ran = false;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, loop->Advance(context.runtime));
    if (!more) break;
    ran = true;
    Context inner = context.Inner();
    inner.scope->Set("loop", Value(loop));
    RETURN_IF_ERROR(target.Assign(inner, loop->current()));
    ASSIGN_OR_RETURN(const Flow flow, body.Execute(inner));
    if (flow == Flow::kBreak) break;
  }
  if (ran) return Flow::kNormal;
  Context inner = context.Inner();
  return otherwise.Execute(inner);
}

}  // namespace quire::jinja

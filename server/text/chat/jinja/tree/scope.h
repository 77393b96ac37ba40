// The variables that a piece of a template sees: first those in its own scope, then those in the
// scopes around it. One render, one thread.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "server/text/chat/jinja/values/runtime.h"
#include "server/text/chat/jinja/values/text.h"
#include "server/text/chat/jinja/values/value.h"

namespace quire::jinja {

// Names are views of the template's syntax tree (or of literals), which outlives the render.
class Scope {
 public:
  explicit Scope(std::shared_ptr<const Scope> parent) : parent_(std::move(parent)) {}

  // Null when no scope has it.
  const Value* Find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
      const auto found = scope->variables_.find(name);
      if (found != scope->variables_.end()) return &found->second;
    }
    return nullptr;
  }

  void Set(std::string_view name, Value value) {
    variables_.insert_or_assign(name, std::move(value));
  }

 private:
  const std::shared_ptr<const Scope> parent_;
  absl::flat_hash_map<std::string_view, Value> variables_;
};

// The place where a statement runs, with its budget, its variables, and its output.
struct Context {
  Runtime& runtime;
  std::shared_ptr<Scope> scope;
  Text* output;

  // The same place with a scope of its own.
  Context Inner(Text* inner_output) const {
    return {runtime, std::make_shared<Scope>(scope), inner_output};
  }
  Context Inner() const { return Inner(output); }
};

}  // namespace quire::jinja

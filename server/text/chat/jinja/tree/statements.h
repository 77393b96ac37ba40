// The statement nodes of the syntax tree; each knows how to run itself. Built by Parser, then
// constant and shared by all renders on any thread.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/text/chat/jinja/tree/expressions.h"
#include "server/text/chat/jinja/tree/scope.h"
#include "server/text/chat/jinja/values/text.h"

namespace quire::jinja {

// How a loop goes on after the statement.
enum class Flow { kNormal, kBreak, kContinue };

class Statement {
 public:
  virtual ~Statement() = default;

  // Charges a step and a level of nesting.
  absl::StatusOr<Flow> Execute(Context& context) const;

  int line = 0;

 private:
  virtual absl::StatusOr<Flow> DoExecute(Context& context) const = 0;
};

// Statements in a row.
struct Block {
  absl::StatusOr<Flow> Execute(Context& context) const;
  // Runs in a scope of its own and returns the text that it printed.
  absl::StatusOr<Text> Capture(Context& context) const;
  std::vector<std::unique_ptr<Statement>> statements;
};

// The target of an assignment: a name, an attribute of a namespace, or several of them.
struct Target {
  absl::Status Assign(Context& context, const Value& value) const;
  std::string name;
  std::string attribute;      // Not empty: name.attribute.
  std::vector<Target> items;  // Not empty: unpacks a sequence.
};

struct DataStatement : Statement {
  absl::StatusOr<Flow> DoExecute(Context& context) const override;
  Text data;
};

struct OutputStatement : Statement {  // {{ value }}
  absl::StatusOr<Flow> DoExecute(Context& context) const override;
  ExpressionPtr value;
};

struct IfStatement : Statement {
  absl::StatusOr<Flow> DoExecute(Context& context) const override;
  std::vector<std::pair<ExpressionPtr, Block>> branches;
  Block otherwise;
};

struct ForStatement : Statement {
  absl::StatusOr<Flow> DoExecute(Context& context) const override;
  // Runs over `items`, from any source; `depth0` counts recursive calls.
  absl::StatusOr<Flow> Run(Context& context, const Value& items, size_t depth0) const;
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr condition;  // May be null.
  bool recursive = false;
  Block body;
  Block otherwise;
};

struct JumpStatement : Statement {  // break; continue
  absl::StatusOr<Flow> DoExecute(Context& context) const override;
  Flow flow = Flow::kBreak;
};

struct SetStatement : Statement {
  absl::StatusOr<Flow> DoExecute(Context& context) const override;
  Target target;
  ExpressionPtr value;
};

struct SetBlockStatement : Statement {  // {% set x | filter %}...{% endset %}
  absl::StatusOr<Flow> DoExecute(Context& context) const override;
  Target target;
  std::vector<std::unique_ptr<FilterExpression>> filters;
  Block body;
};

struct FilterBlockStatement : Statement {
  absl::StatusOr<Flow> DoExecute(Context& context) const override;
  std::vector<std::unique_ptr<FilterExpression>> filters;
  Block body;
};

struct WithStatement : Statement {
  absl::StatusOr<Flow> DoExecute(Context& context) const override;
  std::vector<std::pair<Target, ExpressionPtr>> variables;
  Block body;
};

struct GenerationStatement
    : Statement {  // Marks the assistant's text for training; here it only prints it.
  absl::StatusOr<Flow> DoExecute(Context& context) const override;
  Block body;
};

// The common part of a macro and a {% call %} block.
struct MacroDefinition {
  std::string name;
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;  // With the default, or null.
  Block body;
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool uses_caller = false;
};

struct MacroStatement : Statement {
  absl::StatusOr<Flow> DoExecute(Context& context) const override;
  MacroDefinition macro;
};

struct CallBlockStatement : Statement {
  absl::StatusOr<Flow> DoExecute(Context& context) const override;
  MacroDefinition caller;
  std::unique_ptr<CallExpression> call;
};

}  // namespace quire::jinja

// The expression nodes of the syntax tree; each knows how to evaluate itself. Built by Parser, then
// constant and shared by all renders on any thread. Invariant: height() is at most kMaxTreeHeight.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/text/chat/jinja/builtins/filters.h"
#include "server/text/chat/jinja/tree/scope.h"
#include "server/text/chat/jinja/values/arguments.h"
#include "server/text/chat/jinja/values/operators.h"
#include "server/text/chat/jinja/values/value.h"

namespace quire::jinja {

class Expression {
 public:
  virtual ~Expression() = default;

  // Charges a step and a level of nesting.
  absl::StatusOr<Value> Evaluate(Context& context) const;

  int line = 0;
  size_t height = 1;  // The tree under this node, itself included.

 private:
  virtual absl::StatusOr<Value> DoEvaluate(Context& context) const = 0;
};

using ExpressionPtr = std::unique_ptr<Expression>;

struct Literal : Expression {
  explicit Literal(Value literal) : value(std::move(literal)) {}
  absl::StatusOr<Value> DoEvaluate(Context& context) const override;
  Value value;
};

struct Name : Expression {
  explicit Name(std::string variable) : name(std::move(variable)) {}
  absl::StatusOr<Value> DoEvaluate(Context& context) const override;
  std::string name;
};

// [a, b] or (a, b)
struct ListDisplay : Expression {
  absl::StatusOr<Value> DoEvaluate(Context& context) const override;
  ListKind kind = ListKind::kList;
  std::vector<ExpressionPtr> items;
};

struct DictDisplay : Expression {
  absl::StatusOr<Value> DoEvaluate(Context& context) const override;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};

struct Negation : Expression {  // -a; +a
  absl::StatusOr<Value> DoEvaluate(Context& context) const override;
  bool negative = true;
  ExpressionPtr operand;
};

struct Not : Expression {
  absl::StatusOr<Value> DoEvaluate(Context& context) const override;
  ExpressionPtr operand;
};

struct Arithmetic : Expression {
  absl::StatusOr<Value> DoEvaluate(Context& context) const override;
  BinaryOperator op = BinaryOperator::kAdd;
  ExpressionPtr left;
  ExpressionPtr right;
};

struct Logical : Expression {  // a and b; a or b
  absl::StatusOr<Value> DoEvaluate(Context& context) const override;
  bool is_and = true;
  ExpressionPtr left;
  ExpressionPtr right;
};

struct Concatenation : Expression {  // a ~ b ~ c
  absl::StatusOr<Value> DoEvaluate(Context& context) const override;
  std::vector<ExpressionPtr> parts;
};

enum class Comparison {
  kEqual,
  kNotEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kIn,
  kNotIn
};

struct ComparisonChain : Expression {  // a < b <= c
  absl::StatusOr<Value> DoEvaluate(Context& context) const override;
  ExpressionPtr first;
  std::vector<std::pair<Comparison, ExpressionPtr>> rest;
};

struct Conditional : Expression {  // value if condition else otherwise; `otherwise` may be null
  absl::StatusOr<Value> DoEvaluate(Context& context) const override;
  ExpressionPtr value;
  ExpressionPtr condition;
  ExpressionPtr otherwise;
};

struct AttributeAccess : Expression {  // object.name
  absl::StatusOr<Value> DoEvaluate(Context& context) const override;
  ExpressionPtr object;
  std::string name;
};

struct ItemAccess : Expression {  // object[key]
  absl::StatusOr<Value> DoEvaluate(Context& context) const override;
  ExpressionPtr object;
  ExpressionPtr key;
};

struct SliceAccess : Expression {  // object[start:stop:step]; each bound may be null
  absl::StatusOr<Value> DoEvaluate(Context& context) const override;
  ExpressionPtr object;
  ExpressionPtr start;
  ExpressionPtr stop;
  ExpressionPtr step;
};

// The limit for the names after ** in one call.
inline constexpr size_t kMaxMoreKeyword = 255;

struct ArgumentList {
  absl::StatusOr<Arguments> Evaluate(Context& context) const;
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> keyword;
  ExpressionPtr more_positional;  // After *; may be null.
  ExpressionPtr more_keyword;     // After **; may be null.

 private:
  absl::Status AddMorePositional(Context& context, Arguments* arguments) const;
  absl::Status AddMoreKeyword(Context& context, Arguments* arguments) const;
};

struct CallExpression : Expression {
  absl::StatusOr<Value> DoEvaluate(Context& context) const override;
  // With the block of a {% call %} as `caller`.
  absl::StatusOr<Value> EvaluateWith(Context& context, const Value* caller) const;
  ExpressionPtr callee;
  ArgumentList arguments;
};

struct FilterExpression : Expression {
  absl::StatusOr<Value> DoEvaluate(Context& context) const override;
  absl::StatusOr<Value> Apply(Context& context, const Value& value) const;
  ExpressionPtr input;  // Null at the head of a filter block: the block's text.
  std::string name;
  FilterFunction filter = nullptr;
  ArgumentList arguments;
};

struct TestExpression : Expression {
  absl::StatusOr<Value> DoEvaluate(Context& context) const override;
  ExpressionPtr input;
  std::string name;
  TestFunction test = nullptr;
  ArgumentList arguments;
};

}  // namespace quire::jinja

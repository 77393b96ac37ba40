// Parses expressions, with Jinja's precedences. The statement parser builds on it. One parse, one
// thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/text/chat/jinja/syntax/token_stream.h"
#include "server/text/chat/jinja/tree/expressions.h"

namespace quire::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : stream_(std::move(tokens)) {}

 protected:
  using Result = absl::StatusOr<ExpressionPtr>;

  // One expression; `with_conditional` allows `a if b else c`.
  Result ParseExpression(bool with_conditional = true);
  // One expression, or a tuple without parentheses.
  Result ParseTuple(bool with_conditional);
  // The text after a '|', one or more filters; `input` may be null.
  absl::StatusOr<std::unique_ptr<FilterExpression>> ParseFilter(ExpressionPtr input);
  // A name or literal with everything attached to it: attributes, calls, filters.
  Result ParseUnary(bool with_filters);
  absl::StatusOr<ArgumentList> ParseArguments();

  // Fails when brackets, blocks and operators are nested too deeply; while the guard lives one
  // level counts.
  class NestingGuard {
   public:
    explicit NestingGuard(size_t* nesting) : nesting_(nesting) { ++*nesting_; }
    ~NestingGuard() { --*nesting_; }
    NestingGuard(const NestingGuard&) = delete;
    NestingGuard& operator=(const NestingGuard&) = delete;

   private:
    size_t* nesting_;
  };
  NestingGuard EnterNesting() { return NestingGuard(&nesting_); }
  absl::Status CheckNesting() const;

  TokenStream stream_;
  // Names in the macro that is being parsed to which Jinja gives a meaning, if they are used.
  struct SpecialNames {
    bool varargs = false;
    bool kwargs = false;
    bool caller = false;
  };
  SpecialNames special_names_;
  // Errors about unknown filters and tests. Inside of an if they are errors only once they are
  // used, and are dropped when the if ends.
  std::vector<absl::Status> unknown_names_;

 private:
  Result ParseOr();
  Result ParseAnd();
  Result ParseNot();
  Result ParseComparison();
  // Binary operators that bind at least as tightly as `level`: + -, then ~, then * / // %, then **.
  Result ParseBinary(size_t level);
  Result ParseConcatenation(ExpressionPtr first, int line);
  Result ParsePrimary();
  Result ParseParentheses();
  Result ParseListDisplay();
  Result ParseDictDisplay();
  Result ParseName();
  Result ParsePostfix(ExpressionPtr expression);
  Result ParseFiltersAndTests(ExpressionPtr expression);
  Result ParseAttribute(ExpressionPtr object);
  Result ParseSubscript(ExpressionPtr object);
  Result ParseSlice(ExpressionPtr object, ExpressionPtr start, int line);
  Result ParseCall(ExpressionPtr callee);
  Result ParseTest(ExpressionPtr input);
  absl::Status ParseTestArguments(ArgumentList* arguments);
  bool AtTupleEnd() const;

  // Sets the node's place and the height of its tree; an error if the tree is too high.
  static Result Finish(ExpressionPtr node, int line,
                       const std::vector<const Expression*>& children);

  size_t nesting_ = 0;
};

}  // namespace quire::jinja

#include "server/text/chat/jinja/syntax/expression_parser.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/syntax/parser.h"
#include "server/text/chat/jinja/values/error.h"

namespace quire::jinja {
namespace {

std::vector<const Expression*> Pointers(const ArgumentList& arguments) {
  std::vector<const Expression*> pointers;
  pointers.reserve(arguments.positional.size() + arguments.keyword.size() + 2);
  for (const ExpressionPtr& expression : arguments.positional) pointers.push_back(expression.get());
  for (const auto& [name, expression] : arguments.keyword) pointers.push_back(expression.get());
  pointers.push_back(arguments.more_positional.get());
  pointers.push_back(arguments.more_keyword.get());
  return pointers;
}

std::optional<Comparison> ComparisonOf(const Token& token) {
  static constexpr std::pair<std::string_view, Comparison> kOperators[] = {
      {"==", Comparison::kEqual},  {"!=", Comparison::kNotEqual},
      {"<", Comparison::kLess},    {"<=", Comparison::kLessOrEqual},
      {">", Comparison::kGreater}, {">=", Comparison::kGreaterOrEqual}};
  if (token.kind != TokenKind::kOperator) return std::nullopt;
  for (const auto& [symbol, comparison] : kOperators) {
    if (token.text == symbol) return comparison;
  }
  return std::nullopt;
}

// How tightly the binary operators bind.
constexpr size_t kSumLevel = 0;
constexpr size_t kConcatenationLevel = 1;
constexpr size_t kProductLevel = 2;
constexpr size_t kPowerLevel = 3;

struct BinaryOperatorEntry {
  std::string_view symbol;
  size_t level;
  BinaryOperator op;
};

const BinaryOperatorEntry* FindBinaryOperator(const Token& token) {
  static constexpr BinaryOperatorEntry kOperators[] = {
      {"+", kSumLevel, BinaryOperator::kAdd},
      {"-", kSumLevel, BinaryOperator::kSubtract},
      {"*", kProductLevel, BinaryOperator::kMultiply},
      {"/", kProductLevel, BinaryOperator::kDivide},
      {"//", kProductLevel, BinaryOperator::kFloorDivide},
      {"%", kProductLevel, BinaryOperator::kModulo},
      {"**", kPowerLevel, BinaryOperator::kPower}};
  if (token.kind != TokenKind::kOperator) return nullptr;
  for (const BinaryOperatorEntry& entry : kOperators) {
    if (token.text == entry.symbol) return &entry;
  }
  return nullptr;
}

}  // namespace

ExpressionParser::Result ExpressionParser::Finish(ExpressionPtr node, int line,
                                                  const std::vector<const Expression*>& children) {
  node->line = line;
  for (const Expression* child : children) {
    if (child != nullptr) node->height = std::max(node->height, child->height + 1);
  }
  if (node->height > kMaxTreeHeight) {
    return SyntaxError(line, "an expression has more than ", kMaxTreeHeight, " levels");
  }
  return node;
}

absl::Status ExpressionParser::CheckNesting() const {
  if (nesting_ <= kMaxNesting) return absl::OkStatus();
  return SyntaxError(stream_.line(), "nested more than ", kMaxNesting, " levels deep");
}

ExpressionParser::Result ExpressionParser::ParseExpression(bool with_conditional) {
  const NestingGuard guard = EnterNesting();
  RETURN_IF_ERROR(CheckNesting());
  const int line = stream_.line();
  const size_t num_unknown = unknown_names_.size();
  ASSIGN_OR_RETURN(ExpressionPtr expression, ParseOr());
  while (with_conditional && stream_.SkipName("if")) {
    auto conditional = std::make_unique<Conditional>();
    conditional->value = std::move(expression);
    ASSIGN_OR_RETURN(conditional->condition, ParseOr());
    if (stream_.SkipName("else")) {
      ASSIGN_OR_RETURN(conditional->otherwise, ParseExpression());
    }
    const std::vector<const Expression*> children = {
        conditional->value.get(), conditional->condition.get(), conditional->otherwise.get()};
    ASSIGN_OR_RETURN(expression, Finish(std::move(conditional), line, children));
    unknown_names_.resize(num_unknown);
  }
  return expression;
}

bool ExpressionParser::AtTupleEnd() const {
  return stream_.IsKind(TokenKind::kVariableEnd) || stream_.IsKind(TokenKind::kBlockEnd) ||
         stream_.IsOperator(")") || stream_.IsName("recursive");
}

ExpressionParser::Result ExpressionParser::ParseTuple(bool with_conditional) {
  const int line = stream_.line();
  if (AtTupleEnd()) return stream_.Expected("an expression");
  ASSIGN_OR_RETURN(ExpressionPtr first, ParseExpression(with_conditional));
  if (!stream_.IsOperator(",")) return first;
  auto tuple = std::make_unique<ListDisplay>();
  tuple->kind = ListKind::kTuple;
  std::vector<const Expression*> children = {first.get()};
  tuple->items.push_back(std::move(first));
  while (stream_.SkipOperator(",") && !AtTupleEnd()) {
    ASSIGN_OR_RETURN(ExpressionPtr item, ParseExpression(with_conditional));
    children.push_back(item.get());
    tuple->items.push_back(std::move(item));
  }
  return Finish(std::move(tuple), line, children);
}

ExpressionParser::Result ExpressionParser::ParseOr() {
  const int line = stream_.line();
  ASSIGN_OR_RETURN(ExpressionPtr left, ParseAnd());
  while (stream_.SkipName("or")) {
    auto node = std::make_unique<Logical>();
    node->is_and = false;
    node->left = std::move(left);
    ASSIGN_OR_RETURN(node->right, ParseAnd());
    const std::vector<const Expression*> children = {node->left.get(), node->right.get()};
    ASSIGN_OR_RETURN(left, Finish(std::move(node), line, children));
  }
  return left;
}

ExpressionParser::Result ExpressionParser::ParseAnd() {
  const int line = stream_.line();
  ASSIGN_OR_RETURN(ExpressionPtr left, ParseNot());
  while (stream_.SkipName("and")) {
    auto node = std::make_unique<Logical>();
    node->left = std::move(left);
    ASSIGN_OR_RETURN(node->right, ParseNot());
    const std::vector<const Expression*> children = {node->left.get(), node->right.get()};
    ASSIGN_OR_RETURN(left, Finish(std::move(node), line, children));
  }
  return left;
}

ExpressionParser::Result ExpressionParser::ParseNot() {
  const int line = stream_.line();
  if (!stream_.SkipName("not")) return ParseComparison();
  const NestingGuard guard = EnterNesting();
  RETURN_IF_ERROR(CheckNesting());
  auto node = std::make_unique<Not>();
  ASSIGN_OR_RETURN(node->operand, ParseNot());
  const std::vector<const Expression*> children = {node->operand.get()};
  return Finish(std::move(node), line, children);
}

ExpressionParser::Result ExpressionParser::ParseComparison() {
  const int line = stream_.line();
  ASSIGN_OR_RETURN(ExpressionPtr first, ParseBinary(kSumLevel));
  auto chain = std::make_unique<ComparisonChain>();
  std::vector<const Expression*> children = {first.get()};
  while (true) {
    std::optional<Comparison> comparison = ComparisonOf(stream_.current());
    if (stream_.IsName("in")) comparison = Comparison::kIn;
    const bool not_in = stream_.IsName("not") && stream_.next().kind == TokenKind::kName &&
                        stream_.next().text == "in";
    if (not_in) {
      comparison = Comparison::kNotIn;
      stream_.Advance();
    }
    if (!comparison) break;
    stream_.Advance();
    ASSIGN_OR_RETURN(ExpressionPtr operand, ParseBinary(kSumLevel));
    children.push_back(operand.get());
    chain->rest.emplace_back(*comparison, std::move(operand));
  }
  if (chain->rest.empty()) return first;
  chain->first = std::move(first);
  return Finish(std::move(chain), line, children);
}

ExpressionParser::Result ExpressionParser::ParseBinary(size_t level) {
  const int line = stream_.line();
  ASSIGN_OR_RETURN(ExpressionPtr left, ParseUnary(true));
  while (true) {
    if (stream_.IsOperator("~") && kConcatenationLevel >= level) {
      ASSIGN_OR_RETURN(left, ParseConcatenation(std::move(left), line));
      continue;
    }
    const BinaryOperatorEntry* const entry = FindBinaryOperator(stream_.current());
    if (entry == nullptr || entry->level < level) return left;
    stream_.Advance();
    auto node = std::make_unique<Arithmetic>();
    node->op = entry->op;
    node->left = std::move(left);
    ASSIGN_OR_RETURN(node->right, ParseBinary(entry->level + 1));
    const std::vector<const Expression*> children = {node->left.get(), node->right.get()};
    ASSIGN_OR_RETURN(left, Finish(std::move(node), line, children));
  }
}

ExpressionParser::Result ExpressionParser::ParseConcatenation(ExpressionPtr first, int line) {
  auto node = std::make_unique<Concatenation>();
  std::vector<const Expression*> children = {first.get()};
  node->parts.push_back(std::move(first));
  while (stream_.SkipOperator("~")) {
    ASSIGN_OR_RETURN(ExpressionPtr part, ParseBinary(kConcatenationLevel + 1));
    children.push_back(part.get());
    node->parts.push_back(std::move(part));
  }
  return Finish(std::move(node), line, children);
}

ExpressionParser::Result ExpressionParser::ParseUnary(bool with_filters) {
  const int line = stream_.line();
  ExpressionPtr expression;
  if (stream_.IsOperator("-") || stream_.IsOperator("+")) {
    const NestingGuard guard = EnterNesting();
    RETURN_IF_ERROR(CheckNesting());
    auto node = std::make_unique<Negation>();
    node->negative = stream_.IsOperator("-");
    stream_.Advance();
    ASSIGN_OR_RETURN(node->operand, ParseUnary(false));
    const std::vector<const Expression*> children = {node->operand.get()};
    ASSIGN_OR_RETURN(expression, Finish(std::move(node), line, children));
  } else {
    ASSIGN_OR_RETURN(expression, ParsePrimary());
  }
  ASSIGN_OR_RETURN(expression, ParsePostfix(std::move(expression)));
  return with_filters ? ParseFiltersAndTests(std::move(expression)) : Result(std::move(expression));
}

ExpressionParser::Result ExpressionParser::ParsePostfix(ExpressionPtr expression) {
  while (true) {
    if (stream_.IsOperator(".")) {
      ASSIGN_OR_RETURN(expression, ParseAttribute(std::move(expression)));
    } else if (stream_.IsOperator("[")) {
      ASSIGN_OR_RETURN(expression, ParseSubscript(std::move(expression)));
    } else if (stream_.IsOperator("(")) {
      ASSIGN_OR_RETURN(expression, ParseCall(std::move(expression)));
    } else {
      return expression;
    }
  }
}

ExpressionParser::Result ExpressionParser::ParseAttribute(ExpressionPtr object) {
  const int line = stream_.line();
  stream_.Advance();
  const Expression* child = object.get();
  if (stream_.IsKind(TokenKind::kInteger)) {
    auto node = std::make_unique<ItemAccess>();
    node->object = std::move(object);
    node->key = std::make_unique<Literal>(Value(stream_.current().integer));
    stream_.Advance();
    return Finish(std::move(node), line, {child});
  }
  auto node = std::make_unique<AttributeAccess>();
  node->object = std::move(object);
  RETURN_IF_ERROR(stream_.ReadName(&node->name));
  return Finish(std::move(node), line, {child});
}

ExpressionParser::Result ExpressionParser::ParseSubscript(ExpressionPtr object) {
  const int line = stream_.line();
  stream_.Advance();
  ExpressionPtr key;
  if (!stream_.IsOperator(":")) {
    ASSIGN_OR_RETURN(key, ParseExpression());
  }
  if (stream_.IsOperator(":")) return ParseSlice(std::move(object), std::move(key), line);
  RETURN_IF_ERROR(stream_.ExpectOperator("]"));
  auto node = std::make_unique<ItemAccess>();
  node->object = std::move(object);
  node->key = std::move(key);
  const std::vector<const Expression*> children = {node->object.get(), node->key.get()};
  return Finish(std::move(node), line, children);
}

ExpressionParser::Result ExpressionParser::ParseSlice(ExpressionPtr object, ExpressionPtr start,
                                                      int line) {
  auto node = std::make_unique<SliceAccess>();
  node->object = std::move(object);
  node->start = std::move(start);
  for (ExpressionPtr* bound : {&node->stop, &node->step}) {
    if (!stream_.SkipOperator(":")) break;
    if (stream_.IsOperator(":") || stream_.IsOperator("]")) continue;
    ASSIGN_OR_RETURN(*bound, ParseExpression());
  }
  RETURN_IF_ERROR(stream_.ExpectOperator("]"));
  const std::vector<const Expression*> children = {node->object.get(), node->start.get(),
                                                   node->stop.get(), node->step.get()};
  return Finish(std::move(node), line, children);
}

absl::StatusOr<ArgumentList> ExpressionParser::ParseArguments() {
  RETURN_IF_ERROR(stream_.ExpectOperator("("));
  ArgumentList arguments;
  for (bool is_first = true; !stream_.IsOperator(")"); is_first = false) {
    if (!is_first) {
      RETURN_IF_ERROR(stream_.ExpectOperator(","));
      if (stream_.IsOperator(")")) break;
    }
    if (arguments.more_keyword != nullptr) {
      return SyntaxError(stream_.line(), "an argument after **");
    }
    if (stream_.SkipOperator("**")) {
      ASSIGN_OR_RETURN(arguments.more_keyword, ParseExpression());
      continue;
    }
    if (stream_.IsOperator("*")) {
      if (arguments.more_positional != nullptr)
        return SyntaxError(stream_.line(), "two * arguments");
      stream_.Advance();
      ASSIGN_OR_RETURN(arguments.more_positional, ParseExpression());
      continue;
    }
    const bool is_keyword = stream_.IsKind(TokenKind::kName) &&
                            stream_.next().kind == TokenKind::kOperator &&
                            stream_.next().text == "=";
    std::string name;
    if (is_keyword) {
      RETURN_IF_ERROR(stream_.ReadName(&name));
      RETURN_IF_ERROR(stream_.ExpectOperator("="));
    } else if (!arguments.keyword.empty() || arguments.more_positional != nullptr) {
      return stream_.Expected("a keyword argument after a keyword argument or *");
    }
    ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    if (is_keyword) {
      arguments.keyword.emplace_back(std::move(name), std::move(value));
    } else {
      arguments.positional.push_back(std::move(value));
    }
    if (arguments.positional.size() + arguments.keyword.size() > kMaxArguments) {
      return SyntaxError(stream_.line(), "more than ", kMaxArguments, " arguments");
    }
  }
  stream_.Advance();
  return arguments;
}

ExpressionParser::Result ExpressionParser::ParseCall(ExpressionPtr callee) {
  const int line = stream_.line();
  auto node = std::make_unique<CallExpression>();
  node->callee = std::move(callee);
  ASSIGN_OR_RETURN(node->arguments, ParseArguments());
  std::vector<const Expression*> children = Pointers(node->arguments);
  children.push_back(node->callee.get());
  return Finish(std::move(node), line, children);
}

ExpressionParser::Result ExpressionParser::ParseFiltersAndTests(ExpressionPtr expression) {
  while (true) {
    if (stream_.SkipOperator("|")) {
      ASSIGN_OR_RETURN(std::unique_ptr<FilterExpression> filter,
                       ParseFilter(std::move(expression)));
      expression = std::move(filter);
    } else if (stream_.IsName("is")) {
      ASSIGN_OR_RETURN(expression, ParseTest(std::move(expression)));
    } else if (stream_.IsOperator("(")) {
      ASSIGN_OR_RETURN(expression, ParseCall(std::move(expression)));
    } else {
      return expression;
    }
  }
}

absl::StatusOr<std::unique_ptr<FilterExpression>> ExpressionParser::ParseFilter(
    ExpressionPtr input) {
  const int line = stream_.line();
  auto node = std::make_unique<FilterExpression>();
  node->input = std::move(input);
  RETURN_IF_ERROR(stream_.ReadName(&node->name));
  node->filter = FindFilter(node->name);
  if (node->filter == nullptr)
    unknown_names_.push_back(SyntaxError(line, "there is no filter '", node->name, "'"));
  if (stream_.IsOperator("(")) {
    ASSIGN_OR_RETURN(node->arguments, ParseArguments());
  }
  std::vector<const Expression*> children = Pointers(node->arguments);
  children.push_back(node->input.get());
  ASSIGN_OR_RETURN(ExpressionPtr filter, Finish(std::move(node), line, children));
  return std::unique_ptr<FilterExpression>(static_cast<FilterExpression*>(filter.release()));
}

ExpressionParser::Result ExpressionParser::ParseTest(ExpressionPtr input) {
  const int line = stream_.line();
  stream_.Advance();
  const bool negated = stream_.SkipName("not");
  auto node = std::make_unique<TestExpression>();
  node->input = std::move(input);
  RETURN_IF_ERROR(stream_.ReadName(&node->name));
  node->test = FindTest(node->name);
  if (node->test == nullptr)
    unknown_names_.push_back(SyntaxError(line, "there is no test '", node->name, "'"));
  RETURN_IF_ERROR(ParseTestArguments(&node->arguments));
  std::vector<const Expression*> children = Pointers(node->arguments);
  children.push_back(node->input.get());
  ASSIGN_OR_RETURN(ExpressionPtr test, Finish(std::move(node), line, children));
  if (!negated) return test;
  auto inverse = std::make_unique<Not>();
  inverse->operand = std::move(test);
  const std::vector<const Expression*> operand = {inverse->operand.get()};
  return Finish(std::move(inverse), line, operand);
}

// `is name(a, b)`, or `is name a` with one operand.
absl::Status ExpressionParser::ParseTestArguments(ArgumentList* arguments) {
  if (stream_.IsOperator("(")) {
    ASSIGN_OR_RETURN(*arguments, ParseArguments());
    return absl::OkStatus();
  }
  const TokenKind kind = stream_.current().kind;
  const bool starts_operand = kind == TokenKind::kName || kind == TokenKind::kString ||
                              kind == TokenKind::kInteger || kind == TokenKind::kFloat ||
                              stream_.IsOperator("[") || stream_.IsOperator("{");
  const bool ends_test = stream_.IsName("else") || stream_.IsName("or") || stream_.IsName("and");
  if (!starts_operand || ends_test) return absl::OkStatus();
  if (stream_.IsName("is")) return SyntaxError(stream_.line(), "tests with 'is' cannot be chained");
  ASSIGN_OR_RETURN(ExpressionPtr operand, ParsePrimary());
  ASSIGN_OR_RETURN(operand, ParsePostfix(std::move(operand)));
  arguments->positional.push_back(std::move(operand));
  return absl::OkStatus();
}

}  // namespace quire::jinja

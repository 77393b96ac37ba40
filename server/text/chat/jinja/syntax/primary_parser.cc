// The innermost part of ExpressionParser: names, literals and brackets.
#include <utility>

#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/syntax/expression_parser.h"
#include "server/text/chat/jinja/syntax/parser.h"

namespace quire::jinja {

ExpressionParser::Result ExpressionParser::ParsePrimary() {
  const Token& token = stream_.current();
  const int line = token.line;
  switch (token.kind) {
    case TokenKind::kName:
      return ParseName();
    case TokenKind::kString: {
      std::string text;
      for (; stream_.IsKind(TokenKind::kString); stream_.Advance()) text += stream_.current().text;
      return Finish(std::make_unique<Literal>(Value(Text(text, Origin::kTemplate))), line, {});
    }
    case TokenKind::kInteger: {
      auto literal = std::make_unique<Literal>(Value(token.integer));
      stream_.Advance();
      return Finish(std::move(literal), line, {});
    }
    case TokenKind::kFloat: {
      auto literal = std::make_unique<Literal>(Value(token.number));
      stream_.Advance();
      return Finish(std::move(literal), line, {});
    }
    default:
      break;
  }
  if (stream_.SkipOperator("(")) return ParseParentheses();
  if (stream_.SkipOperator("[")) return ParseListDisplay();
  if (stream_.SkipOperator("{")) return ParseDictDisplay();
  return stream_.Expected("an expression");
}

ExpressionParser::Result ExpressionParser::ParseName() {
  const int line = stream_.line();
  std::string name;
  RETURN_IF_ERROR(stream_.ReadName(&name));
  if (name == "true" || name == "True")
    return Finish(std::make_unique<Literal>(Value(true)), line, {});
  if (name == "false" || name == "False")
    return Finish(std::make_unique<Literal>(Value(false)), line, {});
  if (name == "none" || name == "None")
    return Finish(std::make_unique<Literal>(Value(None{})), line, {});
  if (name == "varargs") special_names_.varargs = true;
  if (name == "kwargs") special_names_.kwargs = true;
  if (name == "caller") special_names_.caller = true;
  return Finish(std::make_unique<Name>(std::move(name)), line, {});
}

ExpressionParser::Result ExpressionParser::ParseParentheses() {
  const int line = stream_.line();
  if (stream_.SkipOperator(")")) {
    auto empty = std::make_unique<ListDisplay>();
    empty->kind = ListKind::kTuple;
    return Finish(std::move(empty), line, {});
  }
  ASSIGN_OR_RETURN(ExpressionPtr expression, ParseTuple(true));
  RETURN_IF_ERROR(stream_.ExpectOperator(")"));
  return expression;
}

ExpressionParser::Result ExpressionParser::ParseListDisplay() {
  const int line = stream_.line();
  auto node = std::make_unique<ListDisplay>();
  std::vector<const Expression*> children;
  while (!stream_.IsOperator("]")) {
    if (!node->items.empty()) {
      RETURN_IF_ERROR(stream_.ExpectOperator(","));
      if (stream_.IsOperator("]")) break;
    }
    ASSIGN_OR_RETURN(ExpressionPtr item, ParseExpression());
    children.push_back(item.get());
    node->items.push_back(std::move(item));
  }
  stream_.Advance();
  return Finish(std::move(node), line, children);
}

ExpressionParser::Result ExpressionParser::ParseDictDisplay() {
  const int line = stream_.line();
  auto node = std::make_unique<DictDisplay>();
  std::vector<const Expression*> children;
  while (!stream_.IsOperator("}")) {
    if (!node->entries.empty()) {
      RETURN_IF_ERROR(stream_.ExpectOperator(","));
      if (stream_.IsOperator("}")) break;
    }
    ASSIGN_OR_RETURN(ExpressionPtr key, ParseExpression());
    RETURN_IF_ERROR(stream_.ExpectOperator(":"));
    ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    children.push_back(key.get());
    children.push_back(value.get());
    node->entries.emplace_back(std::move(key), std::move(value));
  }
  stream_.Advance();
  return Finish(std::move(node), line, children);
}

}  // namespace quire::jinja

#include "server/text/chat/jinja/syntax/parser.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/syntax/expression_parser.h"
#include "server/text/chat/jinja/values/error.h"

namespace quire::jinja {
namespace {

using StatementPtr = std::unique_ptr<Statement>;
using StatementResult = absl::StatusOr<StatementPtr>;
using EndNames = std::vector<std::string>;

class StatementParser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  absl::StatusOr<Block> ParseTemplate() {
    ASSIGN_OR_RETURN(Block block, ParseBlock({}));
    if (!unknown_names_.empty()) return unknown_names_.front();
    return block;
  }

 private:
  // Statements up to a tag whose name is in `ends`, which becomes current; up to the end of the
  // template if it is empty.
  absl::StatusOr<Block> ParseBlock(const EndNames& ends);
  // The same, and moves past that one end tag.
  absl::StatusOr<Block> ParseBody(const std::string& end);
  absl::Status EndTag() { return stream_.Expect(TokenKind::kBlockEnd, "'%}'"); }

  StatementResult ParseOutput();
  StatementResult ParseStatement();
  StatementResult ParseIf();
  StatementResult ParseFor();
  StatementResult ParseJump(Flow flow);
  StatementResult ParseSet();
  StatementResult ParseFilterBlock();
  StatementResult ParseWith();
  StatementResult ParseGeneration();
  StatementResult ParseMacro();
  StatementResult ParseCallBlock();
  absl::Status ParseParameters(MacroDefinition* macro);
  absl::Status ParseMacroBody(const std::string& end, MacroDefinition* macro);
  absl::StatusOr<std::vector<std::unique_ptr<FilterExpression>>> ParseFilterChain();
  absl::StatusOr<Target> ParseTarget(bool with_attributes);
  absl::StatusOr<Target> ParseTargetItem(bool with_attributes);
  bool AtTargetItem() const {
    return stream_.IsOperator("(") || (stream_.IsKind(TokenKind::kName) && !stream_.IsName("in"));
  }

  size_t loop_nesting_ = 0;
};

absl::StatusOr<Block> StatementParser::ParseBlock(const EndNames& ends) {
  const NestingGuard guard = EnterNesting();
  RETURN_IF_ERROR(CheckNesting());
  Block block;
  while (!stream_.IsKind(TokenKind::kEnd)) {
    const int line = stream_.line();
    StatementResult statement = nullptr;
    if (stream_.IsKind(TokenKind::kData)) {
      auto data = std::make_unique<DataStatement>();
      data->data = Text(stream_.current().text, Origin::kTemplate);
      stream_.Advance();
      statement = std::move(data);
    } else if (stream_.IsKind(TokenKind::kVariableBegin)) {
      statement = ParseOutput();
    } else {
      stream_.Advance();
      const bool ends_block =
          std::any_of(ends.begin(), ends.end(),
                      [this](const std::string& name) { return stream_.IsName(name); });
      if (ends_block) return block;
      statement = ParseStatement();
    }
    RETURN_IF_ERROR(statement.status());
    (*statement)->line = line;
    block.statements.push_back(*std::move(statement));
  }
  if (ends.empty()) return block;
  return stream_.Expected(Concat("{% ", absl::StrJoin(ends, " %} or {% "), " %}"));
}

absl::StatusOr<Block> StatementParser::ParseBody(const std::string& end) {
  RETURN_IF_ERROR(EndTag());
  ASSIGN_OR_RETURN(Block block, ParseBlock({end}));
  stream_.Advance();
  return block;
}

StatementResult StatementParser::ParseOutput() {
  stream_.Advance();
  auto output = std::make_unique<OutputStatement>();
  ASSIGN_OR_RETURN(output->value, ParseTuple(true));
  RETURN_IF_ERROR(stream_.Expect(TokenKind::kVariableEnd, "'}}'"));
  return output;
}

StatementResult StatementParser::ParseStatement() {
  struct Entry {
    std::string_view name;
    StatementResult (*parse)(StatementParser& parser);
  };
  static constexpr Entry kStatements[] = {
      {"if", [](StatementParser& parser) { return parser.ParseIf(); }},
      {"for", [](StatementParser& parser) { return parser.ParseFor(); }},
      {"set", [](StatementParser& parser) { return parser.ParseSet(); }},
      {"macro", [](StatementParser& parser) { return parser.ParseMacro(); }},
      {"call", [](StatementParser& parser) { return parser.ParseCallBlock(); }},
      {"filter", [](StatementParser& parser) { return parser.ParseFilterBlock(); }},
      {"with", [](StatementParser& parser) { return parser.ParseWith(); }},
      {"generation", [](StatementParser& parser) { return parser.ParseGeneration(); }},
      {"break", [](StatementParser& parser) { return parser.ParseJump(Flow::kBreak); }},
      {"continue", [](StatementParser& parser) { return parser.ParseJump(Flow::kContinue); }}};
  for (const Entry& entry : kStatements) {
    if (!stream_.SkipName(entry.name)) continue;
    ASSIGN_OR_RETURN(StatementPtr statement, entry.parse(*this));
    RETURN_IF_ERROR(EndTag());
    return statement;
  }
  return stream_.Expected(
      "a statement (if, for, set, macro, call, filter, with, generation, break, continue, raw)");
}

StatementResult StatementParser::ParseIf() {
  const size_t num_unknown = unknown_names_.size();
  auto node = std::make_unique<IfStatement>();
  while (true) {
    ASSIGN_OR_RETURN(ExpressionPtr condition, ParseTuple(false));
    RETURN_IF_ERROR(EndTag());
    ASSIGN_OR_RETURN(Block body, ParseBlock({"elif", "else", "endif"}));
    node->branches.emplace_back(std::move(condition), std::move(body));
    if (!stream_.SkipName("elif")) break;
  }
  if (stream_.SkipName("else")) {
    ASSIGN_OR_RETURN(node->otherwise, ParseBody("endif"));
  } else {
    stream_.Advance();
  }
  unknown_names_.resize(num_unknown);
  return node;
}

StatementResult StatementParser::ParseFor() {
  auto node = std::make_unique<ForStatement>();
  ASSIGN_OR_RETURN(node->target, ParseTarget(false));
  RETURN_IF_ERROR(stream_.ExpectName("in"));
  ASSIGN_OR_RETURN(node->iterable, ParseTuple(false));
  if (stream_.SkipName("if")) {
    ASSIGN_OR_RETURN(node->condition, ParseExpression());
  }
  node->recursive = stream_.SkipName("recursive");
  RETURN_IF_ERROR(EndTag());
  ++loop_nesting_;
  ASSIGN_OR_RETURN(node->body, ParseBlock({"endfor", "else"}));
  --loop_nesting_;
  if (stream_.SkipName("else")) {
    ASSIGN_OR_RETURN(node->otherwise, ParseBody("endfor"));
  } else {
    stream_.Advance();
  }
  return node;
}

StatementResult StatementParser::ParseJump(Flow flow) {
  if (loop_nesting_ == 0)
    return SyntaxError(stream_.line(), "break and continue need a loop around them");
  auto node = std::make_unique<JumpStatement>();
  node->flow = flow;
  return node;
}

absl::StatusOr<Target> StatementParser::ParseTargetItem(bool with_attributes) {
  Target target;
  if (stream_.SkipOperator("(")) {
    const NestingGuard guard = EnterNesting();
    RETURN_IF_ERROR(CheckNesting());
    ASSIGN_OR_RETURN(target, ParseTarget(with_attributes));
    RETURN_IF_ERROR(stream_.ExpectOperator(")"));
    return target;
  }
  RETURN_IF_ERROR(stream_.ReadName(&target.name));
  static constexpr std::string_view kConstants[] = {"true",  "True", "false",
                                                    "False", "none", "None"};
  if (std::find(std::begin(kConstants), std::end(kConstants), target.name) !=
      std::end(kConstants)) {
    return SyntaxError(stream_.line(), "cannot assign to '", target.name, "'");
  }
  if (with_attributes && stream_.SkipOperator("."))
    RETURN_IF_ERROR(stream_.ReadName(&target.attribute));
  return target;
}

absl::StatusOr<Target> StatementParser::ParseTarget(bool with_attributes) {
  ASSIGN_OR_RETURN(Target first, ParseTargetItem(with_attributes));
  if (!stream_.IsOperator(",")) return first;
  Target tuple;
  tuple.items.push_back(std::move(first));
  while (stream_.SkipOperator(",") && AtTargetItem()) {
    ASSIGN_OR_RETURN(Target item, ParseTargetItem(with_attributes));
    tuple.items.push_back(std::move(item));
  }
  return tuple;
}

absl::StatusOr<std::vector<std::unique_ptr<FilterExpression>>> StatementParser::ParseFilterChain() {
  std::vector<std::unique_ptr<FilterExpression>> filters;
  do {
    ASSIGN_OR_RETURN(std::unique_ptr<FilterExpression> filter, ParseFilter(nullptr));
    filters.push_back(std::move(filter));
  } while (stream_.SkipOperator("|"));
  return filters;
}

StatementResult StatementParser::ParseSet() {
  ASSIGN_OR_RETURN(Target target, ParseTarget(true));
  if (stream_.SkipOperator("=")) {
    auto node = std::make_unique<SetStatement>();
    node->target = std::move(target);
    ASSIGN_OR_RETURN(node->value, ParseTuple(true));
    return node;
  }
  auto node = std::make_unique<SetBlockStatement>();
  node->target = std::move(target);
  if (stream_.SkipOperator("|")) {
    ASSIGN_OR_RETURN(node->filters, ParseFilterChain());
  }
  ASSIGN_OR_RETURN(node->body, ParseBody("endset"));
  return node;
}

StatementResult StatementParser::ParseFilterBlock() {
  auto node = std::make_unique<FilterBlockStatement>();
  ASSIGN_OR_RETURN(node->filters, ParseFilterChain());
  ASSIGN_OR_RETURN(node->body, ParseBody("endfilter"));
  return node;
}

StatementResult StatementParser::ParseWith() {
  auto node = std::make_unique<WithStatement>();
  while (!stream_.IsKind(TokenKind::kBlockEnd)) {
    if (!node->variables.empty()) RETURN_IF_ERROR(stream_.ExpectOperator(","));
    ASSIGN_OR_RETURN(Target target, ParseTargetItem(false));
    RETURN_IF_ERROR(stream_.ExpectOperator("="));
    ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    node->variables.emplace_back(std::move(target), std::move(value));
  }
  ASSIGN_OR_RETURN(node->body, ParseBody("endwith"));
  return node;
}

StatementResult StatementParser::ParseGeneration() {
  auto node = std::make_unique<GenerationStatement>();
  const size_t outer_loops = std::exchange(loop_nesting_, 0);
  ASSIGN_OR_RETURN(node->body, ParseBody("endgeneration"));
  loop_nesting_ = outer_loops;
  return node;
}

absl::Status StatementParser::ParseParameters(MacroDefinition* macro) {
  RETURN_IF_ERROR(stream_.ExpectOperator("("));
  while (!stream_.IsOperator(")")) {
    if (!macro->parameters.empty()) RETURN_IF_ERROR(stream_.ExpectOperator(","));
    std::string name;
    ExpressionPtr fallback;
    RETURN_IF_ERROR(stream_.ReadName(&name));
    if (stream_.SkipOperator("=")) {
      ASSIGN_OR_RETURN(fallback, ParseExpression());
    } else if (!macro->parameters.empty() && macro->parameters.back().second != nullptr) {
      return stream_.Expected("a default, as the parameter before has one");
    }
    macro->parameters.emplace_back(std::move(name), std::move(fallback));
    if (macro->parameters.size() > kMaxArguments) {
      return SyntaxError(stream_.line(), "more than ", kMaxArguments, " parameters");
    }
  }
  stream_.Advance();
  return absl::OkStatus();
}

absl::Status StatementParser::ParseMacroBody(const std::string& end, MacroDefinition* macro) {
  const size_t outer_loops = std::exchange(loop_nesting_, 0);
  const SpecialNames outer_names = std::exchange(special_names_, {});
  ASSIGN_OR_RETURN(macro->body, ParseBody(end));
  macro->uses_varargs = special_names_.varargs;
  macro->uses_kwargs = special_names_.kwargs;
  macro->uses_caller = special_names_.caller;
  special_names_ = outer_names;
  loop_nesting_ = outer_loops;
  return absl::OkStatus();
}

StatementResult StatementParser::ParseMacro() {
  auto node = std::make_unique<MacroStatement>();
  RETURN_IF_ERROR(stream_.ReadName(&node->macro.name));
  RETURN_IF_ERROR(ParseParameters(&node->macro));
  RETURN_IF_ERROR(ParseMacroBody("endmacro", &node->macro));
  return node;
}

StatementResult StatementParser::ParseCallBlock() {
  auto node = std::make_unique<CallBlockStatement>();
  node->caller.name = "caller";
  if (stream_.IsOperator("(")) RETURN_IF_ERROR(ParseParameters(&node->caller));
  ASSIGN_OR_RETURN(ExpressionPtr call, ParseExpression());
  if (dynamic_cast<CallExpression*>(call.get()) == nullptr) {
    return stream_.Expected("a call of a macro");
  }
  node->call.reset(static_cast<CallExpression*>(call.release()));
  RETURN_IF_ERROR(ParseMacroBody("endcall", &node->caller));
  return node;
}

}  // namespace

absl::StatusOr<Block> Parse(std::string_view source) {
  ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return StatementParser(std::move(tokens)).ParseTemplate();
}

}  // namespace quire::jinja

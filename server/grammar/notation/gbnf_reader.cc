#include "server/grammar/notation/gbnf_reader.h"

#include <algorithm>
#include <string>

#include "kernels/base/status_macros.h"
#include "server/grammar/notation/grammar_text.h"
#include "server/grammar/notation/text_scanner.h"
#include "server/grammar/regex/char_set.h"
#include "server/text/concat.h"
#include "server/text/utf8.h"

namespace quire {

namespace {

class GbnfReader {
 public:
  GbnfReader(ExprStore* store, GrammarSyntax* syntax)
      : store_(store), syntax_(syntax), builder_(syntax), scanner_(syntax->text, false) {}

  absl::Status Read() {
    scanner_.SkipSpace();
    while (!scanner_.at_end()) RETURN_IF_ERROR(ReadRule());
    return absl::OkStatus();
  }

 private:
  absl::Status ReadRule();
  absl::Status ReadItem();
  absl::Status ReadLiteral();
  absl::Status ReadClass();
  absl::Status ReadName();
  absl::Status ReadGroup();
  absl::Status ReadRepeat();
  absl::Status Repeat(size_t offset, uint32_t min, uint32_t max);
  absl::StatusOr<bool> IsAtDefinition();

  ExprStore* const store_;
  GrammarSyntax* const syntax_;
  SyntaxBuilder builder_;
  TextScanner scanner_;
};

// At the first name of a line: whether it is being defined.
absl::StatusOr<bool> GbnfReader::IsAtDefinition() {
  const size_t begin = scanner_.offset();
  bool is_definition = false;
  if (!scanner_.TakeName().empty()) {
    scanner_.SkipBlanks();
    is_definition = scanner_.IsNext("::=");
    const size_t line_end = std::min(scanner_.text().find('\n', begin), scanner_.text().size());
    const size_t option_end = scanner_.text().substr(0, line_end).find(']', scanner_.offset());
    if (scanner_.Peek() == '[' && option_end != std::string_view::npos) {
      const size_t option = scanner_.offset();
      scanner_.GoTo(option_end + 1);
      scanner_.SkipBlanks();
      if (scanner_.IsNext("::=")) {
        return scanner_.ErrorAt(option,
                                Concat("rule options are not supported: ",
                                       scanner_.text().substr(option, option_end + 1 - option)));
      }
    }
  }
  scanner_.GoTo(begin);
  return is_definition;
}

absl::Status GbnfReader::ReadRule() {
  bool is_definition = false;
  ASSIGN_OR_RETURN(is_definition, IsAtDefinition());
  if (!is_definition) return scanner_.Error("a definition, NAME ::= ..., is missing here");
  const size_t begin = scanner_.offset();
  SyntaxRule rule = {.offset = static_cast<uint32_t>(begin),
                     .first_node = static_cast<SyntaxId>(syntax_->nodes.size())};
  rule.name = builder_.NameIndex(scanner_.TakeName());
  SyntaxName& name = syntax_->names[rule.name];
  if (name.rule != SyntaxName::kUndefined) {
    return scanner_.ErrorAt(begin, Concat("the rule ", name.text, " is defined twice"));
  }
  if (syntax_->rules.size() >= kMaxGrammarTextRules) {
    return scanner_.ErrorAt(begin, Concat("too many rules: at most ", kMaxGrammarTextRules));
  }
  name.rule = static_cast<uint32_t>(syntax_->rules.size());
  scanner_.SkipBlanks();
  scanner_.Take("::=");
  builder_.Begin(begin);
  while (true) {
    scanner_.SkipSpace();
    if (scanner_.at_end()) break;
    if (scanner_.IsFirstInLine()) {
      bool is_next = false;
      ASSIGN_OR_RETURN(is_next, IsAtDefinition());
      if (is_next) break;
    }
    RETURN_IF_ERROR(ReadItem());
  }
  if (builder_.group_close() != '\0')
    return scanner_.ErrorAt(builder_.group_offset(), "this ( is not closed");
  rule.root = builder_.Finish();
  if (builder_.is_too_deep()) return scanner_.ErrorAt(begin, "the rule is nested too deep");
  syntax_->rules.push_back(rule);
  return absl::OkStatus();
}

absl::Status GbnfReader::ReadItem() {
  const size_t begin = scanner_.offset();
  switch (scanner_.Peek()) {
    case '"':
      return ReadLiteral();
    case '[':
      return ReadClass();
    case '(':
      return ReadGroup();
    case ')':
      if (builder_.group_close() != ')') return scanner_.Error("this ) closes nothing");
      scanner_.Take(")");
      builder_.Close();
      return absl::OkStatus();
    case '|':
      scanner_.Take("|");
      builder_.NextBranch();
      return absl::OkStatus();
    case '.':
      scanner_.Take(".");
      builder_.Add(SyntaxNode::Kind::kText, begin, Spell(store_, CharSet::All(), Spelling::kText));
      return absl::OkStatus();
    case '*':
    case '+':
    case '?':
    case '{':
      return ReadRepeat();
    case '<':
    case '!':
      return scanner_.Error(Concat("tokens are not supported in a grammar: ", scanner_.Until('>')));
    default:
      return ReadName();
  }
}

absl::Status GbnfReader::ReadName() {
  const size_t begin = scanner_.offset();
  const std::string_view name = scanner_.TakeName();
  if (name.empty()) return scanner_.Unexpected();
  static constexpr std::string_view kMacros[] = {
      "TagDispatch", "TokenTagDispatch", "Token", "ExcludeToken", "Regex", "Substring"};
  if (scanner_.Peek() == '(' &&
      std::find(std::begin(kMacros), std::end(kMacros), name) != std::end(kMacros)) {
    return scanner_.ErrorAt(begin, Concat(name, "(...) is not supported"));
  }
  builder_.Add(SyntaxNode::Kind::kName, begin, builder_.NameIndex(name));
  return absl::OkStatus();
}

absl::Status GbnfReader::ReadGroup() {
  const size_t begin = scanner_.offset();
  if (scanner_.IsNext("(=")) return scanner_.Error("lookahead, (= ...), is not supported");
  scanner_.Take("(");
  if (!builder_.Open(begin, ')')) return scanner_.ErrorAt(begin, "groups are nested too deep");
  return absl::OkStatus();
}

absl::Status GbnfReader::ReadLiteral() {
  const size_t begin = scanner_.offset();
  scanner_.Take("\"");
  std::string text;
  while (scanner_.Peek() != '"') {
    if (scanner_.at_end()) return scanner_.ErrorAt(begin, "this \" is not closed");
    char32_t c = 0;
    ASSIGN_OR_RETURN(c, scanner_.TakeChar());
    AppendUtf8(c, &text);
  }
  scanner_.Take("\"");
  builder_.Add(SyntaxNode::Kind::kText, begin, store_->Literal(text));
  return absl::OkStatus();
}

absl::Status GbnfReader::ReadClass() {
  const size_t begin = scanner_.offset();
  scanner_.Take("[");
  const bool is_negated = scanner_.Take("^");
  std::vector<CharSet::Range> ranges;
  while (scanner_.Peek() != ']') {
    if (scanner_.at_end()) return scanner_.ErrorAt(begin, "this [ is not closed");
    const size_t range_begin = scanner_.offset();
    CharSet::Range range = {};
    ASSIGN_OR_RETURN(range.first, scanner_.TakeChar());
    range.last = range.first;
    if (scanner_.Peek() == '-' && scanner_.Peek(1) != ']') {
      scanner_.Take("-");
      ASSIGN_OR_RETURN(range.last, scanner_.TakeChar());
    }
    if (range.last < range.first)
      return scanner_.ErrorAt(range_begin, "a range of characters ends before it begins");
    ranges.push_back(range);
  }
  scanner_.Take("]");
  const CharSet chars(std::move(ranges));
  const CharSet wanted = is_negated ? chars.Complement() : chars;
  if (wanted.empty()) return scanner_.ErrorAt(begin, "this class has no characters");
  builder_.Add(SyntaxNode::Kind::kText, begin, Spell(store_, wanted, Spelling::kText));
  return absl::OkStatus();
}

absl::Status GbnfReader::Repeat(size_t offset, uint32_t min, uint32_t max) {
  if (max < min) return scanner_.ErrorAt(offset, "a repeat has fewer at most than at least");
  if (!builder_.Repeat(min, max)) return scanner_.ErrorAt(offset, "there is nothing to repeat");
  return absl::OkStatus();
}

absl::Status GbnfReader::ReadRepeat() {
  const size_t begin = scanner_.offset();
  if (scanner_.Take("*")) return Repeat(begin, 0, kUnbounded);
  if (scanner_.Take("+")) return Repeat(begin, 1, kUnbounded);
  if (scanner_.Take("?")) return Repeat(begin, 0, 1);
  scanner_.Take("{");
  scanner_.SkipSpace();
  uint32_t min = 0;
  if (scanner_.Peek() != ',') {
    ASSIGN_OR_RETURN(min, scanner_.TakeCount());
  }
  uint32_t max = min;
  scanner_.SkipSpace();
  if (scanner_.Take(",")) {
    scanner_.SkipSpace();
    max = kUnbounded;
    if (scanner_.Peek() != '}') {
      ASSIGN_OR_RETURN(max, scanner_.TakeCount());
    }
    scanner_.SkipSpace();
  }
  if (!scanner_.Take("}")) return scanner_.Unexpected();
  return Repeat(begin, min, max);
}

}  // namespace

absl::Status ReadGbnf(ExprStore* store, GrammarSyntax* syntax) {
  return GbnfReader(store, syntax).Read();
}

}  // namespace quire

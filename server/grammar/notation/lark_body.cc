// The bodies of Lark's definitions.
#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "kernels/base/status_macros.h"
#include "server/grammar/notation/lark_reader.h"
#include "server/grammar/regex/regex_expr.h"
#include "server/text/concat.h"
#include "server/text/utf8.h"

namespace quire {

namespace {

// The text with every case of its characters.
ExprId AnyCase(ExprStore* store, std::string_view utf8) {
  std::vector<ExprId> parts;
  for (size_t i = 0; i < utf8.size();) {
    const DecodedChar next = DecodeChar(utf8.data() + i);
    parts.push_back(Spell(store, CharSet::Of(next.code_point).WithAllCases(), Spelling::kText));
    i += next.num_bytes;
  }
  ExprId text = ExprStore::kEmpty;
  for (size_t i = parts.size(); i-- > 0;) text = store->Concat(parts[i], text);
  return text;
}

bool IsNamePart(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
}

}  // namespace

bool LarkReader::IsAtEndOfBody() {
  scanner_.SkipSpace();
  if (scanner_.at_end()) return true;
  if (!scanner_.IsFirstInLine()) return false;
  if (scanner_.Peek() != '%') return IsAtDefinition();
  return !scanner_.IsNext("%json") && !scanner_.IsNext("%regex") && !scanner_.IsNext("%lark") &&
         !scanner_.IsNext("%if");
}

absl::Status LarkReader::ReadItem() {
  switch (scanner_.Peek()) {
    case '"':
      return ReadString();
    case '/':
      return ReadRegex();
    case '(':
    case '[':
      return ReadOpen();
    case ')':
    case ']': {
      const char close = scanner_.Peek();
      if (builder_.group_close() != close)
        return scanner_.Error(Concat("this ", std::string(1, close), " closes nothing"));
      scanner_.GoTo(scanner_.offset() + 1);
      if (builder_.is_negated()) return scanner_.Error("there is nothing behind the ~");
      builder_.Close();
      if (close == ']') builder_.Repeat(0, 1);
      return absl::OkStatus();
    }
    case '|':
    case '&':
      if (builder_.is_negated()) return scanner_.Error("there is nothing behind the ~");
      scanner_.Peek() == '|' ? builder_.NextBranch() : builder_.NextPart();
      scanner_.GoTo(scanner_.offset() + 1);
      return absl::OkStatus();
    case '*':
    case '+':
    case '?':
    case '{':
    case '~':
      return ReadRepeat();
    case '-':
      if (!scanner_.Take("->")) return scanner_.Unexpected();
      scanner_.SkipSpace();
      return scanner_.TakeName().empty() ? scanner_.Error("the name of the alias is missing")
                                         : absl::OkStatus();
    case '%':
      return ReadJson();
    case '<':
      return scanner_.Error(
          Concat("special tokens are not supported in a grammar: ", scanner_.Until('>')));
    case '@':
      return scanner_.Error(
          Concat("references to other grammars are not supported: ", scanner_.Until(' ')));
    default:
      return ReadName();
  }
}

absl::Status LarkReader::ReadName() {
  const size_t begin = scanner_.offset();
  if (scanner_.Peek() == '!' || scanner_.Peek() == '?') return scanner_.Unexpected();
  const std::string_view name = scanner_.TakeName();
  if (name.empty()) return scanner_.Unexpected();
  if (scanner_.IsNext("::")) {
    return scanner_.ErrorAt(begin, Concat("parameters of rules are not supported: ", name));
  }
  if (scanner_.Peek() == '{' && IsNamePart(scanner_.Peek(1)) &&
      !absl::ascii_isdigit(static_cast<unsigned char>(scanner_.Peek(1)))) {
    return scanner_.ErrorAt(begin,
                            Concat("templates are not supported: ", name, scanner_.Until('}')));
  }
  builder_.Add(SyntaxNode::Kind::kName, begin, builder_.NameIndex(name));
  return absl::OkStatus();
}

absl::Status LarkReader::ReadOpen() {
  const size_t begin = scanner_.offset();
  const char close = scanner_.Peek() == '(' ? ')' : ']';
  scanner_.GoTo(begin + 1);
  if (!builder_.Open(begin, close)) return scanner_.ErrorAt(begin, "groups are nested too deep");
  return absl::OkStatus();
}

absl::StatusOr<std::string> LarkReader::TakeString() {
  const size_t begin = scanner_.offset();
  if (!scanner_.Take("\"")) return scanner_.Error("a text in quotes is missing here");
  std::string text;
  while (!scanner_.Take("\"")) {
    if (scanner_.at_end() || scanner_.Peek() == '\n')
      return scanner_.ErrorAt(begin, "this \" is not closed");
    char32_t c = 0;
    ASSIGN_OR_RETURN(c, scanner_.TakeChar());
    AppendUtf8(c, &text);
  }
  return text;
}

absl::Status LarkReader::ReadString() {
  const size_t begin = scanner_.offset();
  std::string text;
  ASSIGN_OR_RETURN(text, TakeString());
  if (scanner_.Peek() == 'i' && !IsNamePart(scanner_.Peek(1))) {
    scanner_.Take("i");
    builder_.Add(SyntaxNode::Kind::kText, begin, AnyCase(&grammar_->store, text));
    return absl::OkStatus();
  }
  const size_t end = scanner_.offset();
  scanner_.SkipBlanks();
  if (!scanner_.Take("..")) {
    scanner_.GoTo(end);
    builder_.Add(SyntaxNode::Kind::kText, begin, grammar_->store.Literal(text));
    return absl::OkStatus();
  }
  scanner_.SkipBlanks();
  std::string last;
  ASSIGN_OR_RETURN(last, TakeString());
  if (CountCharacters(text) != 1 || CountCharacters(last) != 1)
    return scanner_.ErrorAt(begin, "each end of a range is one character");
  const CharSet::Range range = {DecodeChar(text.data()).code_point,
                                DecodeChar(last.data()).code_point};
  if (range.last < range.first)
    return scanner_.ErrorAt(begin, "a range of characters ends before it begins");
  builder_.Add(SyntaxNode::Kind::kText, begin,
               Spell(&grammar_->store, CharSet{range}, Spelling::kText));
  return absl::OkStatus();
}

absl::Status LarkReader::ReadRegex() {
  const size_t begin = scanner_.offset();
  const std::string_view line = scanner_.rest().substr(0, scanner_.rest().find('\n'));
  size_t size = 1;
  for (; size < line.size() && line[size] != '/'; ++size) {
    if (line[size] == '\\') ++size;
  }
  if (size >= line.size()) return scanner_.Error("this / is not closed");
  scanner_.GoTo(begin + size + 1);
  std::string flags;
  for (; std::string_view("imslux").find(scanner_.Peek()) != std::string_view::npos &&
         !scanner_.at_end();
       scanner_.GoTo(scanner_.offset() + 1)) {
    if (scanner_.Peek() == 'l') return scanner_.Error("the flag l is not supported");
    if (scanner_.Peek() != 'u') flags += scanner_.Peek();
  }
  const std::string_view pattern = line.substr(1, size - 1);
  if (flags.empty()) return AddRegex(pattern, begin);
  return AddRegex(Concat("(?", flags, ")", pattern), begin);
}

absl::Status LarkReader::AddRegex(std::string_view pattern, size_t offset) {
  const absl::StatusOr<ExprId> regex =
      RegexExpr(&grammar_->store, pattern, {.spelling = Spelling::kText, .whole = true});
  if (!regex.ok()) {
    return scanner_.ErrorAt(
        offset, Concat("the regular expression /", pattern, "/: ", regex.status().message()));
  }
  builder_.Add(SyntaxNode::Kind::kText, offset, *regex);
  return absl::OkStatus();
}

// From { to the } that closes it, as in JSON.
absl::StatusOr<std::string_view> LarkReader::TakeBraces() {
  const size_t begin = scanner_.offset();
  const std::string_view rest = scanner_.rest();
  if (scanner_.Peek() != '{') return scanner_.Error("an object in braces is missing here");
  size_t depth = 0;
  bool is_quoted = false;
  for (size_t i = 0; i < rest.size(); ++i) {
    if (is_quoted && rest[i] == '\\') {
      ++i;
    } else if (rest[i] == '"') {
      is_quoted = !is_quoted;
    } else if (!is_quoted && rest[i] == '{') {
      ++depth;
    } else if (!is_quoted && rest[i] == '}' && --depth == 0) {
      scanner_.GoTo(begin + i + 1);
      return rest.substr(0, i + 1);
    }
  }
  return scanner_.Error("this { is not closed");
}

absl::Status LarkReader::ReadJson() {
  const size_t begin = scanner_.offset();
  scanner_.Take("%");
  const std::string_view name = scanner_.TakeName();
  if (name != "json" || hooks_.json_schema == nullptr)
    return scanner_.ErrorAt(begin, Concat("%", name, " is not supported here"));
  scanner_.SkipSpace();
  std::string_view schema;
  ASSIGN_OR_RETURN(schema, TakeBraces());
  const absl::StatusOr<RuleId> rule = hooks_.json_schema(grammar_, schema);
  if (!rule.ok()) {
    return scanner_.ErrorAt(begin, Concat("the schema of %json: ", rule.status().message()));
  }
  builder_.Add(SyntaxNode::Kind::kRule, begin, *rule);
  return absl::OkStatus();
}

absl::Status LarkReader::Repeat(size_t offset, uint32_t min, uint32_t max) {
  if (max < min) return scanner_.ErrorAt(offset, "a repeat has fewer at most than at least");
  if (builder_.is_negated() || !builder_.Repeat(min, max))
    return scanner_.ErrorAt(offset, "there is nothing to repeat");
  return absl::OkStatus();
}

absl::Status LarkReader::ReadRepeat() {
  const size_t begin = scanner_.offset();
  if (scanner_.Take("*")) return Repeat(begin, 0, kUnbounded);
  if (scanner_.Take("+")) return Repeat(begin, 1, kUnbounded);
  if (scanner_.Take("?")) return Repeat(begin, 0, 1);
  uint32_t min = 0, max = 0;
  if (scanner_.Take("~")) {
    scanner_.SkipBlanks();
    if (!absl::ascii_isdigit(static_cast<unsigned char>(scanner_.Peek()))) {
      builder_.Negate();
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(min, scanner_.TakeCount());
    max = min;
    scanner_.SkipBlanks();
    if (scanner_.Take("..")) {
      scanner_.SkipBlanks();
      ASSIGN_OR_RETURN(max, scanner_.TakeCount());
    }
    return Repeat(begin, min, max);
  }
  scanner_.Take("{");
  scanner_.SkipBlanks();
  if (scanner_.Peek() != ',') {
    ASSIGN_OR_RETURN(min, scanner_.TakeCount());
  }
  max = min;
  scanner_.SkipBlanks();
  if (scanner_.Take(",")) {
    scanner_.SkipBlanks();
    max = kUnbounded;
    if (scanner_.Peek() != '}') {
      ASSIGN_OR_RETURN(max, scanner_.TakeCount());
    }
    scanner_.SkipBlanks();
  }
  if (!scanner_.Take("}")) return scanner_.Unexpected();
  return Repeat(begin, min, max);
}

}  // namespace quire

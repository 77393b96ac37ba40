#include "server/grammar/notation/lark_reader.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "kernels/base/status_macros.h"
#include "server/grammar/notation/lark_common.h"
#include "server/text/concat.h"

namespace quire {

namespace {

// By the first letter; a name without letters is a rule's.
bool IsTerminalName(std::string_view name) {
  const auto letter = std::find_if(name.begin(), name.end(), absl::ascii_isalpha);
  return letter != name.end() && absl::ascii_isupper(static_cast<unsigned char>(*letter));
}

}  // namespace

absl::Status LarkReader::Read() {
  while (true) {
    scanner_.SkipSpace();
    if (scanner_.at_end()) return absl::OkStatus();
    if (!scanner_.IsFirstInLine()) return scanner_.Unexpected();
    if (scanner_.Peek() == '%') {
      RETURN_IF_ERROR(ReadDirective());
    } else {
      RETURN_IF_ERROR(ReadDefinition());
    }
  }
}

// Whether a rule or terminal is being defined here: a name, perhaps with something in brackets or
// braces or a priority, and a colon.
bool LarkReader::IsAtDefinition() {
  const size_t begin = scanner_.offset();
  while (scanner_.Peek() == '!' || scanner_.Peek() == '?') scanner_.GoTo(scanner_.offset() + 1);
  const bool has_name = !scanner_.TakeName().empty();
  for (const auto& [open, close] : {std::pair('{', '}'), std::pair('[', ']')}) {
    if (scanner_.Peek() != open) continue;
    const std::string_view rest = scanner_.rest();
    const std::string_view line = rest.substr(0, rest.find('\n'));
    bool is_quoted = false;
    size_t size = 0;
    for (; size < line.size() && (is_quoted || line[size] != close); ++size) {
      if (line[size] == '"') is_quoted = !is_quoted;
      if (line[size] == '\\') ++size;
    }
    scanner_.GoTo(scanner_.offset() + std::min(size + 1, line.size()));
  }
  if (scanner_.Peek() == '.' && scanner_.Peek(1) != '.') {
    scanner_.Take(".");
    while (absl::ascii_isdigit(static_cast<unsigned char>(scanner_.Peek())) ||
           scanner_.Peek() == '-' || scanner_.Peek() == '+')
      scanner_.GoTo(scanner_.offset() + 1);
  }
  scanner_.SkipBlanks();
  const bool is_definition = has_name && scanner_.Peek() == ':';
  scanner_.GoTo(begin);
  return is_definition;
}

absl::Status LarkReader::ReadDefinition() {
  if (!IsAtDefinition()) {
    return scanner_.Error("a definition, NAME: ..., or a directive, %..., is missing here");
  }
  while (scanner_.Peek() == '!' || scanner_.Peek() == '?') scanner_.GoTo(scanner_.offset() + 1);
  const size_t begin = scanner_.offset();
  const std::string_view name = scanner_.TakeName();
  if (scanner_.Peek() == '{') {
    return scanner_.ErrorAt(begin,
                            Concat("templates are not supported: ", name, scanner_.Until('}')));
  }
  if (scanner_.Peek() == '[') RETURN_IF_ERROR(ReadAttributes());
  // A priority has no meaning here.
  while (!scanner_.at_end() && scanner_.Peek() != ':') scanner_.GoTo(scanner_.offset() + 1);
  if (scanner_.IsNext("::"))
    return scanner_.ErrorAt(begin, Concat("parameters of rules are not supported: ", name));
  scanner_.Take(":");
  SyntaxRule rule;
  ASSIGN_OR_RETURN(rule, BeginRule(name, begin));
  return ReadBody(rule);
}

// [capture], [capture="x", ...]: only what changes neither the text nor how it is drawn.
absl::Status LarkReader::ReadAttributes() {
  scanner_.Take("[");
  while (true) {
    scanner_.SkipBlanks();
    const size_t begin = scanner_.offset();
    const std::string_view name = scanner_.TakeName();
    if (name != "capture") {
      return scanner_.ErrorAt(begin, Concat("the attribute ", name, " is not supported"));
    }
    scanner_.SkipBlanks();
    if (scanner_.Take("=")) {
      scanner_.SkipBlanks();
      RETURN_IF_ERROR(TakeString().status());
    }
    scanner_.SkipBlanks();
    if (scanner_.Take("]")) return absl::OkStatus();
    if (!scanner_.Take(",")) return scanner_.Unexpected();
  }
}

absl::StatusOr<SyntaxRule> LarkReader::BeginRule(std::string_view name, size_t offset) {
  SyntaxRule rule = {.offset = static_cast<uint32_t>(offset),
                     .is_terminal = IsTerminalName(name),
                     .first_node = static_cast<SyntaxId>(syntax_->nodes.size())};
  rule.name = builder_.NameIndex(name);
  if (syntax_->names[rule.name].rule != SyntaxName::kUndefined)
    return scanner_.ErrorAt(offset, Concat(name, " is defined twice"));
  if (syntax_->rules.size() >= kMaxGrammarTextRules) {
    return scanner_.ErrorAt(offset, Concat("too many rules: at most ", kMaxGrammarTextRules));
  }
  syntax_->names[rule.name].rule = static_cast<uint32_t>(syntax_->rules.size());
  builder_.Begin(offset);
  return rule;
}

absl::Status LarkReader::ReadBody(SyntaxRule rule) {
  while (!IsAtEndOfBody()) RETURN_IF_ERROR(ReadItem());
  if (builder_.group_close() != '\0')
    return scanner_.ErrorAt(builder_.group_offset(), "this group is not closed");
  if (builder_.is_negated()) return scanner_.Error("there is nothing behind the ~");
  return EndRule(rule);
}

absl::Status LarkReader::EndRule(SyntaxRule rule) {
  rule.root = builder_.Finish();
  if (builder_.is_too_deep())
    return scanner_.ErrorAt(rule.offset, "the definition is nested too deep");
  syntax_->rules.push_back(rule);
  return absl::OkStatus();
}

absl::Status LarkReader::ReadDirective() {
  const size_t begin = scanner_.offset();
  scanner_.Take("%");
  const std::string_view name = scanner_.TakeName();
  if (name == "ignore") return ReadIgnore();
  if (name == "import") return ReadImport();
  if (name == "llguidance") return ReadOptions();
  return scanner_.ErrorAt(begin, Concat("the directive %", name, " is not supported"));
}

absl::Status LarkReader::ReadIgnore() {
  // Its name is one that no text can spell.
  const size_t begin = scanner_.offset();
  SyntaxRule rule = {.offset = static_cast<uint32_t>(begin),
                     .is_terminal = true,
                     .first_node = static_cast<SyntaxId>(syntax_->nodes.size())};
  rule.name = builder_.NameIndex("%ignore");
  if (syntax_->rules.size() >= kMaxGrammarTextRules)
    return scanner_.ErrorAt(begin, Concat("too many rules: at most ", kMaxGrammarTextRules));
  syntax_->ignored.push_back(static_cast<uint32_t>(syntax_->rules.size()));
  builder_.Begin(begin);
  return ReadBody(rule);
}

absl::Status LarkReader::ReadImport() {
  scanner_.SkipBlanks();
  const size_t begin = scanner_.offset();
  if (scanner_.TakeName() != "common") {
    scanner_.GoTo(begin);
    return scanner_.Error(
        Concat("only the module common can be imported, not ", scanner_.Until(' ')));
  }
  if (scanner_.Take(".")) {
    const size_t at = scanner_.offset();
    const std::string_view name = scanner_.TakeName();
    std::string_view as = name;
    scanner_.SkipBlanks();
    if (scanner_.Take("->")) {
      scanner_.SkipBlanks();
      as = scanner_.TakeName();
    }
    return Import(name, as, at);
  }
  scanner_.SkipBlanks();
  if (!scanner_.Take("(")) return scanner_.Unexpected();
  do {
    scanner_.SkipSpace();
    const size_t at = scanner_.offset();
    const std::string_view name = scanner_.TakeName();
    RETURN_IF_ERROR(Import(name, name, at));
    scanner_.SkipSpace();
  } while (scanner_.Take(","));
  return scanner_.Take(")") ? absl::OkStatus() : scanner_.Unexpected();
}

absl::Status LarkReader::Import(std::string_view name, std::string_view as, size_t offset) {
  const std::string_view regex = LarkCommonTerminal(name);
  if (regex.empty()) {
    return scanner_.ErrorAt(offset, Concat("the module common has no terminal ", name));
  }
  if (!IsTerminalName(as))
    return scanner_.ErrorAt(offset, "the name of a terminal, in upper case, is missing");
  SyntaxRule rule;
  ASSIGN_OR_RETURN(rule, BeginRule(as, offset));
  RETURN_IF_ERROR(AddRegex(regex, offset));
  return EndRule(rule);
}

absl::Status LarkReader::ReadOptions() {
  scanner_.SkipBlanks();
  const size_t begin = scanner_.offset();
  std::string_view options;
  ASSIGN_OR_RETURN(options, TakeBraces());
  const bool has_any = std::any_of(options.begin() + 1, options.end() - 1,
                                   [](unsigned char c) { return !absl::ascii_isspace(c); });
  if (!has_any) return absl::OkStatus();
  return scanner_.ErrorAt(begin, "options of %llguidance are not supported");
}

}  // namespace quire

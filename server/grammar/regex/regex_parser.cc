#include "server/grammar/regex/regex_parser.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "server/grammar/regex/char_class.h"
#include "server/grammar/regex/regex_reader.h"
#include "server/text/concat.h"
#include "server/text/utf8.h"

namespace quire {

namespace {

using Kind = RegexNode::Kind;

struct RegexFlags {
  bool ignore_case = false;  // i
  bool dot_all = false;      // s: `.` is every character
  bool multi_line = false;   // m: ^ and $ are the start and the end of a line
  bool extended = false;     // x: white space and comments are skipped
};

// Calls itself for groups, `max_depth` deep at most.
class RegexParser {
 public:
  RegexParser(std::string_view pattern, const RegexLimits& limits)
      : limits_(limits), reader_(pattern) {}

  absl::StatusOr<ParsedRegex> Parse();

 private:
  struct Term {
    RegexNodeId node = 0;
    bool is_nothing = false;  // a comment, or flags for the rest of the group
    bool can_repeat = true;
  };

  RegexNodeId ParseAlternation();
  RegexNodeId ParseSequence();
  Term ParseTerm();
  Term ParseEscape();
  Term ParseGroup();
  Term ParseBody(size_t begin);
  Term ParseLookahead(Kind kind, size_t begin);
  Term ParseLookbehind(bool negated, size_t begin);
  Term ParseFlags(size_t begin);
  bool SkipName(char end, size_t begin);
  RegexNodeId ParseQuantifier(const Term& term);
  bool TakeCounts(uint32_t* min, uint32_t* max);
  void SkipBlank();
  RegexNodeId AddLineEnd();
  Term Edge(Kind kind) { return {.node = tree_.AddEdge(kind), .can_repeat = false}; }

  const RegexLimits limits_;
  RegexReader reader_;
  RegexTree tree_;
  RegexFlags flags_;
  int depth_ = 0;
};

absl::StatusOr<ParsedRegex> RegexParser::Parse() {
  tree_.AddConcat({});  // node 0, which stands for terms with errors
  const RegexNodeId root = ParseAlternation();
  if (reader_.status().ok() && !reader_.at_end()) reader_.Fail(reader_.offset(), "this ) is alone");
  if (!reader_.status().ok()) return reader_.status();
  return ParsedRegex{.tree = std::move(tree_), .root = root};
}

RegexNodeId RegexParser::ParseAlternation() {
  std::vector<RegexNodeId> branches = {ParseSequence()};
  while (reader_.Take("|")) branches.push_back(ParseSequence());
  return tree_.AddAlternation(std::move(branches));
}

RegexNodeId RegexParser::ParseSequence() {
  std::vector<RegexNodeId> parts;
  for (;;) {
    SkipBlank();
    if (reader_.at_end() || reader_.Peek() == '|' || reader_.Peek() == ')') break;
    const Term term = ParseTerm();
    if (!term.is_nothing) parts.push_back(ParseQuantifier(term));
    if (reader_.num_ranges() > limits_.max_num_ranges) {
      reader_.Fail(reader_.offset(), "the classes up to here have too many ranges");
    }
  }
  return tree_.AddConcat(std::move(parts));
}

// The white space and comments of the flag x.
void RegexParser::SkipBlank() {
  while (flags_.extended && !reader_.at_end()) {
    if (reader_.Peek() == '#') {
      if (!reader_.TakeUntil('\n').has_value()) {
        while (!reader_.at_end()) reader_.TakeChar();
      }
    } else if (absl::ascii_isspace(static_cast<unsigned char>(reader_.Peek()))) {
      reader_.Skip(1);
    } else {
      return;
    }
  }
}

// The end of the text, or of a line.
RegexNodeId RegexParser::AddLineEnd() {
  const RegexNodeId end = tree_.AddEdge(Kind::kEnd);
  const RegexNodeId ends = tree_.AddLookahead(Kind::kLookahead, tree_.AddChars(LineEndChars()));
  return tree_.AddAlternation({end, ends});
}

RegexParser::Term RegexParser::ParseTerm() {
  const size_t begin = reader_.offset();
  switch (reader_.Peek()) {
    case '(':
      return ParseGroup();
    case '[':
      reader_.Skip(1);
      return {.node = tree_.AddChars(reader_.ReadClass(flags_.ignore_case))};
    case '\\':
      return ParseEscape();
    case '.':
      reader_.Skip(1);
      return {.node =
                  tree_.AddChars(flags_.dot_all ? CharSet::All() : LineEndChars().Complement())};
    case '^':
      reader_.Skip(1);
      if (!flags_.multi_line) return Edge(Kind::kStart);
      return {.node = tree_.AddAfter(Kind::kStartOrAfter, LineEndChars()), .can_repeat = false};
    case '$':
      reader_.Skip(1);
      if (!flags_.multi_line) return Edge(Kind::kEnd);
      return {.node = AddLineEnd(), .can_repeat = false};
    case '*':
    case '+':
    case '?':
      reader_.Fail(begin, "this quantifier has nothing to repeat");
      return {};
    case '{': {
      uint32_t min, max;
      if (TakeCounts(&min, &max)) reader_.Fail(begin, "this quantifier has nothing to repeat");
      break;
    }
    default:
      break;
  }
  if (!reader_.status().ok()) return {};
  const CharSet chars = CharSet::Of(reader_.TakeChar());
  return {.node = tree_.AddChars(flags_.ignore_case ? chars.WithAllCases() : chars)};
}

RegexParser::Term RegexParser::ParseEscape() {
  reader_.Skip(1);
  switch (reader_.Peek()) {
    case 'b':
      reader_.Skip(1);
      return Edge(Kind::kWordEdge);
    case 'B':
      reader_.Skip(1);
      return Edge(Kind::kNotWordEdge);
    case 'A':
      reader_.Skip(1);
      return Edge(Kind::kStart);
    case 'z':
    case 'Z':
      reader_.Skip(1);
      return Edge(Kind::kEnd);
    default:
      return {.node = tree_.AddChars(reader_.ReadEscape(flags_.ignore_case))};
  }
}

// Up to the group's ')'. Its flags end with it.
RegexParser::Term RegexParser::ParseBody(size_t begin) {
  const RegexFlags flags = flags_;
  if (++depth_ > limits_.max_depth) {
    reader_.Fail(begin, Concat("groups are nested more than ", limits_.max_depth, " deep"));
  }
  const RegexNodeId node = ParseAlternation();
  --depth_;
  if (!reader_.Take(")")) reader_.Fail(begin, "the group lacks its )");
  flags_ = flags;
  return {.node = node};
}

RegexParser::Term RegexParser::ParseGroup() {
  const size_t begin = reader_.offset();
  reader_.Skip(1);
  const auto refuse = [&](std::string_view what) {
    reader_.Refuse(begin, what);
    return Term{};
  };
  if (reader_.Peek() == '*') return refuse("a verb such as (*ACCEPT)");
  if (!reader_.Take("?")) return ParseBody(begin);
  if (reader_.Take(":") || reader_.Take("|")) return ParseBody(begin);
  if (reader_.Take("=")) return ParseLookahead(Kind::kLookahead, begin);
  if (reader_.Take("!")) return ParseLookahead(Kind::kNotLookahead, begin);
  if (reader_.Take("<=")) return ParseLookbehind(false, begin);
  if (reader_.Take("<!")) return ParseLookbehind(true, begin);
  if (reader_.Take("#")) {
    if (!reader_.TakeUntil(')').has_value()) reader_.Fail(begin, "the comment lacks its )");
    return {.is_nothing = true};
  }
  if (reader_.Take("P<") || reader_.Take("<"))
    return SkipName('>', begin) ? ParseBody(begin) : Term{};
  if (reader_.Take("'")) return SkipName('\'', begin) ? ParseBody(begin) : Term{};
  if (reader_.Take(">")) return refuse("an atomic group");
  if (reader_.Take("P=")) return refuse("a backreference");
  if (reader_.Take("(")) return refuse("a condition");
  const char next = reader_.Peek();
  if (reader_.Take("P>") || next == 'R' || next == '&' || next == '+' ||
      absl::ascii_isdigit(static_cast<unsigned char>(next)) ||
      (next == '-' && absl::ascii_isdigit(static_cast<unsigned char>(reader_.Peek(1))))) {
    return refuse("recursion into a group");
  }
  return ParseFlags(begin);
}

bool RegexParser::SkipName(char end, size_t begin) {
  const std::optional<std::string_view> name = reader_.TakeUntil(end);
  bool is_valid = name.has_value() && !name->empty() &&
                  !absl::ascii_isdigit(static_cast<unsigned char>(name->front()));
  for (size_t i = 0; is_valid && i < name->size(); ++i) {
    const auto byte = static_cast<unsigned char>((*name)[i]);
    is_valid = absl::ascii_isalnum(byte) || byte == '_' || byte == '$' || byte >= 0x80;
  }
  if (!is_valid) reader_.Fail(begin, "the group's name is not one");
  return is_valid;
}

RegexParser::Term RegexParser::ParseLookahead(Kind kind, size_t begin) {
  const Term body = ParseBody(begin);
  if (!reader_.status().ok()) return {};
  return {.node = tree_.AddLookahead(kind, body.node)};
}

// One character, or the start of the text; or some of them.
RegexParser::Term RegexParser::ParseLookbehind(bool negated, size_t begin) {
  const Term body = ParseBody(begin);
  if (!reader_.status().ok()) return {};
  std::vector<RegexNodeId> branches = {body.node};
  if (tree_.node(body.node).kind == Kind::kAlternation) branches = tree_.node(body.node).children;
  bool has_start = false;
  CharSet chars;
  for (const RegexNodeId branch : branches) {
    if (tree_.is_chars(branch)) {
      chars = chars | tree_.set_of(branch);
    } else if (tree_.node(branch).kind == Kind::kStart) {
      has_start = true;
    } else {
      reader_.Refuse(begin, "a lookbehind of more than one character");
      return {};
    }
  }
  if (negated) {
    has_start = !has_start;
    chars = chars.Complement();
  }
  return {.node = tree_.AddAfter(has_start ? Kind::kStartOrAfter : Kind::kAfter, chars),
          .can_repeat = false};
}

// Behind "(?": flags for the rest of the group that this stands in, or for a group of its own.
RegexParser::Term RegexParser::ParseFlags(size_t begin) {
  const RegexFlags before = flags_;
  RegexFlags flags = flags_;
  bool value = true;
  for (; !reader_.at_end(); reader_.TakeChar()) {
    switch (reader_.Peek()) {
      case 'i':
        flags.ignore_case = value;
        continue;
      case 's':
        flags.dot_all = value;
        continue;
      case 'm':
        flags.multi_line = value;
        continue;
      case 'x':
        flags.extended = value;
        continue;
      case 'a':  // ASCII, as always here
        continue;
      case '-':
        if (!value) break;
        value = false;
        continue;
      case ')':
        reader_.Skip(1);
        flags_ = flags;
        return {.is_nothing = true};
      case ':': {
        reader_.Skip(1);
        flags_ = flags;
        const Term body = ParseBody(begin);
        flags_ = before;
        return body;
      }
      case 'u':
      case 'U':
      case 'J':
      case 'L':
      case 'n':
        reader_.Refuse(begin, "a flag other than i, s, m, x and a");
        return {};
      default:
        break;
    }
    break;
  }
  reader_.Fail(begin, "what is behind (? is no kind of group");
  return {};
}

// "{m}", "{m,}", "{m,n}" or "{,n}". Another brace is a character, and nothing is taken.
bool RegexParser::TakeCounts(uint32_t* min, uint32_t* max) {
  const size_t begin = reader_.offset();
  if (!reader_.Take("{")) return false;
  const std::optional<uint32_t> first = reader_.TakeNumber();
  const bool has_comma = reader_.Take(",");
  const std::optional<uint32_t> second = has_comma ? reader_.TakeNumber() : first;
  if (!reader_.Take("}") || (!first.has_value() && !second.has_value())) {
    reader_.GoBack(begin);
    return false;
  }
  *min = first.value_or(0);
  *max = second.value_or(kUnbounded);
  if (*min > limits_.max_repeat || second.value_or(0) > limits_.max_repeat) {
    reader_.Fail(begin, Concat("a count is beyond ", limits_.max_repeat));
  } else if (*min > *max) {
    reader_.Fail(begin, "the second count is below the first");
  }
  return true;
}

RegexNodeId RegexParser::ParseQuantifier(const Term& term) {
  SkipBlank();
  const size_t begin = reader_.offset();
  uint32_t min = 0, max = kUnbounded;
  if (reader_.Take("+")) {
    min = 1;
  } else if (reader_.Take("?")) {
    max = 1;
  } else if (!reader_.Take("*") && !TakeCounts(&min, &max)) {
    return term.node;
  }
  if (!reader_.status().ok()) return 0;
  if (!term.can_repeat) reader_.Fail(begin, "this quantifier has nothing to repeat");
  if (reader_.Take("+")) reader_.Refuse(begin, "a possessive quantifier");
  reader_.Take("?");  // as few as possible: the same texts
  uint32_t again_min, again_max;
  const char next = reader_.Peek();
  if (next == '*' || next == '+' || next == '?' || TakeCounts(&again_min, &again_max))
    reader_.Fail(begin, "a quantifier follows another");
  if (!reader_.status().ok()) return 0;
  // One lookahead says as much as several.
  const Kind kind = tree_.node(term.node).kind;
  if (kind == Kind::kLookahead || kind == Kind::kNotLookahead)
    return min == 0 ? tree_.AddConcat({}) : term.node;
  return tree_.AddRepeat(term.node, min, max);
}

}  // namespace

absl::StatusOr<ParsedRegex> ParseRegex(std::string_view pattern, const RegexLimits& limits) {
  if (pattern.size() > limits.max_pattern_bytes) {
    return absl::InvalidArgumentError(
        Concat("the pattern has ", pattern.size(), " bytes, more than ", limits.max_pattern_bytes));
  }
  if (const auto offset = FindInvalidUtf8(pattern)) {
    return absl::InvalidArgumentError(
        Concat("at byte ", *offset, " of the pattern: this is not UTF-8"));
  }
  return RegexParser(pattern, limits).Parse();
}

}  // namespace quire

#include "engine/model/quantization/name_patterns.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/json/json_reader.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"

namespace quire {
namespace {

constexpr size_t kMaxPatternBytes = 2000;
constexpr uint32_t kMaxNesting = 50;
// A match recurses for an expression within an expression, such as a look-ahead.
constexpr uint32_t kMaxRecursions = 1000;
constexpr uint32_t kMaxHeap_kib = 1024;
// Room for the states that a match may be in at once: about a third of them.
constexpr size_t kWorkspaceInts = 3000;

constexpr absl::string_view kExpressionPrefix = "re:";
// Text with one of these characters is an expression. The dot is not one of them, because names
// have dots anyway.
constexpr absl::string_view kExpressionChars = "*+?[](){}|^$\\";

bool HasAny(absl::string_view text, absl::string_view chars) {
  return text.find_first_of(chars) != absl::string_view::npos;
}

void AppendLiteral(char c, std::string* expression) {
  if (HasAny(absl::string_view(&c, 1), kExpressionChars) || c == '.') *expression += '\\';
  *expression += c;
}

// Where the set that opens at `begin` ends; npos where it does not.
size_t EndOfSet(absl::string_view glob, size_t begin) {
  size_t first = begin + 1;
  if (first < glob.size() && glob[first] == '!') ++first;
  return glob.find(']', first + 1);
}

// Python's fnmatch: the whole name.
std::string GlobExpression(absl::string_view glob) {
  std::string expression = "(?s:";
  for (size_t i = 0; i < glob.size(); ++i) {
    if (glob[i] == '*') {
      expression += ".*";
    } else if (glob[i] == '?') {
      expression += '.';
    } else if (const size_t end = glob[i] == '[' ? EndOfSet(glob, i) : absl::string_view::npos;
               end != absl::string_view::npos) {
      expression += '[';
      size_t j = i + 1;
      if (glob[j] == '!') {
        expression += '^';
        ++j;
      }
      for (; j < end; ++j) {
        if (HasAny(absl::string_view(&glob[j], 1), "\\^[]")) expression += '\\';
        expression += glob[j];
      }
      expression += ']';
      i = end;
    } else {
      AppendLiteral(glob[i], &expression);
    }
  }
  return expression + ")\\z";
}

std::string CompileErrorText(int code) {
  PCRE2_UCHAR buffer[128];
  if (pcre2_get_error_message(code, buffer, sizeof(buffer)) < 0) return absl::StrCat(code);
  return reinterpret_cast<const char*>(buffer);
}

absl::StatusOr<std::shared_ptr<const pcre2_real_code_8>> CompileExpression(
    absl::string_view expression, absl::string_view shown) {
  if (expression.size() > kMaxPatternBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the pattern ", Shown(std::string(shown)),
                                                   " is longer than ", kMaxPatternBytes, " bytes"));
  }
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  CHECK(context != nullptr) << "out of memory for PCRE2";
  pcre2_set_parens_nest_limit(context, kMaxNesting);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
      PCRE2_ANCHORED | PCRE2_NEVER_UTF | PCRE2_DOLLAR_ENDONLY, &error, &offset, context);
  pcre2_compile_context_free(context);
  if (code == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the pattern ", Shown(std::string(shown)),
                     " is no regular expression that is supported: ", CompileErrorText(error)));
  }
  return std::shared_ptr<const pcre2_real_code_8>(
      code, [](const pcre2_real_code_8* c) { pcre2_code_free(const_cast<pcre2_real_code_8*>(c)); });
}

struct MatchMemory {
  MatchMemory()
      : data(pcre2_match_data_create(1, nullptr)), context(pcre2_match_context_create(nullptr)) {
    CHECK(data != nullptr && context != nullptr) << "out of memory for PCRE2";
    pcre2_set_match_limit(context, kMaxRecursions);
    pcre2_set_depth_limit(context, kMaxNesting);
    pcre2_set_heap_limit(context, kMaxHeap_kib);
  }
  ~MatchMemory() {
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
  MatchMemory(const MatchMemory&) = delete;
  MatchMemory& operator=(const MatchMemory&) = delete;

  pcre2_match_data* data;
  pcre2_match_context* context;
  std::array<int, kWorkspaceInts> workspace;
};

bool IsPrefixModule(absl::string_view name, absl::string_view prefix) {
  return absl::StartsWith(name, prefix) &&
         (name.size() == prefix.size() || name[prefix.size()] == '.' ||
          absl::EndsWith(prefix, "."));
}

// The expression of a text by its rule; empty where it is compared as it is.
std::string ExpressionOf(absl::string_view text, NameRule rule) {
  switch (rule) {
    case NameRule::kRegex:
      return std::string(text);
    case NameRule::kGlob:
      return HasAny(text, "*?[") ? GlobExpression(text) : "";
    case NameRule::kTransformers:
      if (!HasAny(text, kExpressionChars)) return "";
      return absl::StrCat("(?:", text, ")(?:(?<=\\.)|(?=\\.|\\z))");
    default:
      return "";
  }
}

}  // namespace

absl::StatusOr<NamePattern> NamePattern::Create(absl::string_view text, NameRule rule) {
  // As a substring or an ending it would be every module.
  if (text.empty()) return absl::InvalidArgumentError("the name of a module is empty");
  if (rule == NameRule::kCompressed) {
    const bool is_expression = absl::StartsWith(text, kExpressionPrefix);
    rule = is_expression ? NameRule::kRegex : NameRule::kExact;
    if (is_expression) text.remove_prefix(kExpressionPrefix.size());
  }
  NamePattern pattern(std::string(text), rule);
  const std::string expression = ExpressionOf(text, rule);
  if (!expression.empty()) {
    ASSIGN_OR_RETURN(pattern.code_, CompileExpression(expression, text));
  }
  return pattern;
}

absl::StatusOr<bool> NamePattern::Matches(absl::string_view name) const {
  switch (rule_) {
    case NameRule::kExact:
    case NameRule::kCompressed:
      return name == text_;
    case NameRule::kLastPart:
      return name == text_ || absl::EndsWith(name, absl::StrCat(".", text_));
    case NameRule::kSubstring:
      return absl::StrContains(name, text_);
    case NameRule::kPrefix:
      return IsPrefixModule(name, text_);
    case NameRule::kTransformers:
      if (absl::EndsWith(name, text_) || IsPrefixModule(name, text_)) return true;
      break;
    case NameRule::kGlob:
      if (is_plain()) return IsPrefixModule(name, text_);
      break;
    case NameRule::kRegex:
      break;
  }
  if (is_plain()) return rule_ == NameRule::kRegex;  // the empty expression matches all
  // Unlike a backtracking search, this one's steps are at most the name's length times its states.
  MatchMemory memory;
  const int result = pcre2_dfa_match(
      code_.get(), reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(), 0, PCRE2_DFA_SHORTEST,
      memory.data, memory.context, memory.workspace.data(), memory.workspace.size());
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result >= 0) return true;
  return absl::InvalidArgumentError(
      absl::StrCat("the pattern ", Shown(text_),
                   " is too complicated to match names: ", CompileErrorText(result)));
}

absl::StatusOr<NamePatterns> NamePatterns::Create(const std::vector<std::string>& texts,
                                                  NameRule rule) {
  NamePatterns patterns;
  size_t num_expressions = 0;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(NamePattern pattern, NamePattern::Create(text, rule));
    if (pattern.is_exact()) {
      patterns.names_.insert(pattern.text());
      continue;
    }
    if (!pattern.is_plain() && ++num_expressions > kMaxExpressions) {
      return absl::InvalidArgumentError(
          absl::StrCat("more than ", kMaxExpressions, " patterns; name modules instead"));
    }
    patterns.patterns_.push_back(std::move(pattern));
  }
  return patterns;
}

absl::StatusOr<bool> NamePatterns::Matches(absl::string_view name) const {
  if (names_.contains(name)) return true;
  for (const NamePattern& pattern : patterns_) {
    ASSIGN_OR_RETURN(const bool matches, pattern.Matches(name));
    if (matches) return true;
  }
  return false;
}

}  // namespace quire

// TranslatePattern: from Oniguruma's (Ruby) syntax, which tokenizer.json is written in, to PCRE2's.
// A part that means the same in both passes through. A part that differs is rewritten, and a part
// that has no equal is refused by name.
#include <array>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "kernels/base/status_macros.h"
#include "server/text/tokenizer/file/errors.h"
#include "server/text/tokenizer/regex/regex.h"

namespace quire {
namespace {

// \w as the members of a class: letters, marks, numbers of some kinds, connectors, and the letters
// in circles and squares. PCRE2's own has fewer.
constexpr std::string_view kWordMembers =
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}"
    "\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}";
// Outside of a class, the superscripts and fractions of Latin-1 belong to it, too.
constexpr std::string_view kWordMembersOutsideOfClass = "\\xB2\\xB3\\xB9\\xBC-\\xBE";

std::string Word() { return Concat("[", kWordMembers, kWordMembersOutsideOfClass, "]"); }

std::string WordBorder() {
  const std::string word = Word();
  return Concat("(?:(?<=", word, ")(?!", word, ")|(?<!", word, ")(?=", word, "))");
}

constexpr std::array<std::string_view, 37> kCategories = {
    "C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",
    "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi",
    "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};

bool IsCategory(std::string_view name) {
  for (std::string_view category : kCategories) {
    if (category == name) return true;
  }
  return false;
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  absl::StatusOr<std::string> Run() {
    while (pos_ < pattern_.size()) RETURN_IF_ERROR(Step());
    if (in_class_) return Unsupported("a character class without its ]");
    return std::move(out_);
  }

 private:
  absl::Status Step() {
    const char c = pattern_[pos_];
    if (c == '\\') return Escape();
    if (in_class_) return ClassMember(c);
    if (c == '[') return OpenClass();
    if (c == '(') return OpenGroup();
    if (c == '}' && Next() == '+') return Unsupported("a '+' after {n,m}");
    return Copy(1);
  }

  absl::Status OpenClass() {
    in_class_ = true;
    const size_t length = Next() == '^' ? 2 : 1;
    Copy(length).IgnoreError();
    // A ] in the first place stands for itself in both, but Ruby warns of it: not in any known
    // file.
    return pos_ < pattern_.size() && pattern_[pos_] == ']' ? Unsupported("an empty character class")
                                                           : absl::OkStatus();
  }

  absl::Status ClassMember(char c) {
    if (c == '[') return Unsupported("a class inside a class");
    if (c == '&' && Next() == '&') return Unsupported("a class intersection (&&)");
    if (c == ']') in_class_ = false;
    return Copy(1);
  }

  // Lets through (?:...), look-arounds, atomic groups and the option i, which mean the same in
  // both.
  absl::Status OpenGroup() {
    if (Next() != '?') {
      if (Next() == '*') return Unsupported("a (*VERB)");
      return Copy(1);
    }
    size_t end = pos_ + 2;
    const std::string_view rest = pattern_.substr(end);
    for (std::string_view opener : {":", "=", "!", "<=", "<!", ">"}) {
      if (rest.substr(0, opener.size()) == opener) return Copy(2 + opener.size());
    }
    while (end < pattern_.size() && (pattern_[end] == 'i' || pattern_[end] == '-')) ++end;
    if (end < pattern_.size() && (pattern_[end] == ':' || pattern_[end] == ')'))
      return Copy(end + 1 - pos_);
    return Unsupported(Concat("the group (?", rest.substr(0, 4)));
  }

  absl::Status Escape() {
    const char c = Next();
    switch (c) {
      case 'p':
      case 'P':
        return Property();
      case 'w':
        return Replace(2, in_class_ ? std::string(kWordMembers) : Word());
      case 'W':
        if (in_class_) return Unsupported("\\W inside a class");
        return Replace(2, Concat("[^", kWordMembers, kWordMembersOutsideOfClass, "]"));
      case 'b':
        return Replace(2, in_class_ ? "\\x08" : WordBorder());
      case 'h':
        return Replace(2, in_class_ ? "0-9a-fA-F" : "[0-9a-fA-F]");
      case 'v':
        return Replace(2, "\\x0B");
      case 'u':
        if (pattern_.size() - pos_ < 6) return Unsupported("an unfinished \\u");
        return Replace(6, Concat("\\x{", pattern_.substr(pos_ + 2, 4), "}"));
      default:
        break;
    }
    constexpr std::string_view kSame = "sSdDnrtfaxAzZ";
    const bool is_same = c != '\0' && kSame.find(c) != std::string_view::npos;
    if (!is_same && (c == '\0' || absl::ascii_isalnum(static_cast<unsigned char>(c)))) {
      return Unsupported(Concat("the escape \\", std::string(1, c)));
    }
    return Copy(2);
  }

  // General categories pass; any other name is a script, which PCRE2 must not read as script
  // extensions.
  absl::Status Property() {
    const size_t open = pos_ + 2;
    const size_t close = pattern_.find('}', open);
    if (open >= pattern_.size() || pattern_[open] != '{' || close == std::string_view::npos) {
      return Unsupported("a \\p without {name}");
    }
    std::string_view name = pattern_.substr(open + 1, close - open - 1);
    const bool is_negated = !name.empty() && name[0] == '^';
    if (is_negated) name.remove_prefix(1);
    return Replace(close + 1 - pos_, Concat(pattern_.substr(pos_, 2), is_negated ? "{^" : "{",
                                            IsCategory(name) ? "" : "sc:", name, "}"));
  }

  char Next() const { return pos_ + 1 < pattern_.size() ? pattern_[pos_ + 1] : '\0'; }

  absl::Status Copy(size_t length) { return Replace(length, pattern_.substr(pos_, length)); }

  absl::Status Replace(size_t length, std::string_view by) {
    out_.append(by);
    pos_ += length;
    return absl::OkStatus();
  }

  absl::Status Unsupported(std::string_view what) const {
    return InvalidArgument("regular expression \"", pattern_, "\" at offset ", pos_, ": ", what,
                           " is not supported");
  }

  const std::string_view pattern_;
  size_t pos_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

absl::StatusOr<std::string> TranslatePattern(std::string_view pattern) {
  return Translator(pattern).Run();
}

}  // namespace quire

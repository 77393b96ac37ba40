#include "server/text/tokenizer/stages/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/text/tokenizer/file/components.h"
#include "server/text/tokenizer/file/errors.h"
#include "server/text/tokenizer/regex/span_finder.h"
#include "server/text/unicode.h"
#include "server/text/utf8.h"

namespace quire {
namespace {

constexpr char kWhere[] = "normalizer";

bool IsAscii(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<uint8_t>(c) < 0x80; });
}

// A text made anew character by character: `change(code_point, &out)` appends what becomes of each.
template <typename Change>
void RewriteChars(std::string* text, const Change& change) {
  std::string out;
  out.reserve(text->size());
  for (size_t pos = 0; pos < text->size();) {
    const DecodedChar c = DecodeChar(text->data() + pos);
    change(c.code_point, &out);
    pos += c.num_bytes;
  }
  *text = std::move(out);
}

// NFC, NFD, NFKC, NFKD. Decomposes with utf8proc but orders the marks itself: utf8proc's own
// ordering takes quadratic time on a long run of marks.
class NormalFormStep final : public NormalizerStep {
 public:
  NormalFormStep(bool compatibility, bool compose)
      : compatibility_(compatibility), compose_(compose) {}

  absl::Status Apply(std::string* text, RegexScratch*) const override {
    if (IsAscii(*text)) return absl::OkStatus();
    std::string out;
    out.reserve(text->size());
    std::vector<utf8proc_int32_t> chars;  // decomposed, up to the next inert character
    for (size_t pos = 0; pos < text->size();) {
      const DecodedChar c = DecodeChar(text->data() + pos);
      pos += c.num_bytes;
      if (IsInertInNormalForms(c.code_point)) {
        FinishStretch(&chars, &out);
        AppendUtf8(c.code_point, &out);
      } else {
        AppendDecomposed(c.code_point, &chars);
      }
    }
    FinishStretch(&chars, &out);
    *text = std::move(out);
    return absl::OkStatus();
  }

 private:
  void AppendDecomposed(char32_t c, std::vector<utf8proc_int32_t>* chars) const {
    const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                        (compatibility_ ? UTF8PROC_COMPAT : 0));
    constexpr int kLongestDecomposition = 18;  // of U+FDFA
    utf8proc_int32_t buffer[kLongestDecomposition];
    int boundary = UTF8PROC_BOUNDCLASS_START;
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(c), buffer, kLongestDecomposition, options, &boundary);
    CHECK(count >= 0 && count <= kLongestDecomposition) << "decomposition of " << uint32_t{c};
    chars->insert(chars->end(), buffer, buffer + count);
  }

  // Orders and composes `chars`, appends them to `out` and clears them.
  void FinishStretch(std::vector<utf8proc_int32_t>* chars, std::string* out) const {
    SortMarks(chars);
    utf8proc_ssize_t length = static_cast<utf8proc_ssize_t>(chars->size());
    if (compose_) {
      length = utf8proc_normalize_utf32(
          chars->data(), length,
          static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
      CHECK_GE(length, 0) << utf8proc_errmsg(length);
    }
    for (utf8proc_ssize_t i = 0; i < length; ++i) {
      AppendUtf8(static_cast<char32_t>((*chars)[i]), out);
    }
    chars->clear();
  }

  // Canonical ordering: every run of marks by combining class, otherwise as it was.
  static void SortMarks(std::vector<utf8proc_int32_t>* chars) {
    const auto combining_class = [](utf8proc_int32_t c) {
      return utf8proc_get_property(c)->combining_class;
    };
    const auto is_mark = [&](utf8proc_int32_t c) { return combining_class(c) != 0; };
    for (auto begin = chars->begin();;) {
      begin = std::find_if(begin, chars->end(), is_mark);
      if (begin == chars->end()) return;
      const auto end = std::find_if_not(begin, chars->end(), is_mark);
      std::stable_sort(begin, end, [&](utf8proc_int32_t a, utf8proc_int32_t b) {
        return combining_class(a) < combining_class(b);
      });
      begin = end;
    }
  }

  const bool compatibility_;
  const bool compose_;
};

class PrependStep final : public NormalizerStep {
 public:
  explicit PrependStep(std::string prefix) : prefix_(std::move(prefix)) {}

  absl::Status Apply(std::string* text, RegexScratch*) const override {
    if (!text->empty()) text->insert(0, prefix_);
    return absl::OkStatus();
  }

 private:
  const std::string prefix_;
};

class ReplaceStep final : public NormalizerStep {
 public:
  ReplaceStep(std::unique_ptr<SpanFinder> finder, std::string content)
      : finder_(std::move(finder)), content_(std::move(content)) {}

  absl::Status Apply(std::string* text, RegexScratch* scratch) const override {
    std::string replaced;
    replaced.reserve(text->size());
    RETURN_IF_ERROR(finder_->Find(*text, scratch, [&](const Span& span) {
      replaced.append(span.is_match
                          ? content_
                          : std::string_view(*text).substr(span.begin, span.end - span.begin));
      return replaced.size() <= kMaxNormalizedBytes
                 ? absl::OkStatus()
                 : absl::ResourceExhaustedError(
                       "the tokenizer's Replace normalizer makes this text too long");
    }));
    *text = std::move(replaced);
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<SpanFinder> finder_;
  const std::string content_;
};

class StripStep final : public NormalizerStep {
 public:
  StripStep(bool left, bool right) : left_(left), right_(right) {}

  absl::Status Apply(std::string* text, RegexScratch*) const override {
    const uint8_t* classes = CharClasses();
    while (right_ && !text->empty()) {
      const DecodedChar last = DecodeCharBefore(text->data() + text->size());
      if (!(classes[last.code_point] & kSpace)) break;
      text->erase(text->size() - last.num_bytes);
    }
    size_t begin = 0;
    while (left_ && begin < text->size()) {
      const DecodedChar first = DecodeChar(text->data() + begin);
      if (!(classes[first.code_point] & kSpace)) break;
      begin += first.num_bytes;
    }
    text->erase(0, begin);
    return absl::OkStatus();
  }

 private:
  const bool left_;
  const bool right_;
};

// A change of single characters that needs no settings.
class CharStep final : public NormalizerStep {
 public:
  using Change = void (*)(char32_t code_point, std::string* out);
  explicit CharStep(Change change) : change_(change) {}

  absl::Status Apply(std::string* text, RegexScratch*) const override {
    RewriteChars(text, change_);
    return absl::OkStatus();
  }

 private:
  const Change change_;
};

// The first step of SentencePiece's own normalisation: no control characters, one kind of blank.
void AppendNmt(char32_t c, std::string* out) {
  const bool is_dropped = (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) ||
                          c == 0x7F || c == 0x8F || c == 0x9F;
  if (is_dropped) return;
  const bool is_blank = c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 ||
                        (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                        c == 0xFEFF || c == 0xFFFD;
  AppendUtf8(is_blank ? ' ' : c, out);
}

void AppendLowercase(char32_t c, std::string* out) {
  constexpr char32_t kCapitalIWithDot = 0x130;  // the one character whose lower case is two
  if (c == kCapitalIWithDot) {
    out->append("i\u0307");
  } else if (const auto small = SmallLetterOfRecentCapital(c)) {
    AppendUtf8(*small, out);
  } else {
    AppendUtf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
  }
}

void AppendUnlessAccent(char32_t c, std::string* out) {
  if (!(CharClasses()[c] & kAccent)) AppendUtf8(c, out);
}

absl::StatusOr<std::unique_ptr<NormalizerStep>> ParseNormalizer(const std::string& type,
                                                                const nlohmann::json& json) {
  if (type == "NFC") return std::make_unique<NormalFormStep>(false, true);
  if (type == "NFD") return std::make_unique<NormalFormStep>(false, false);
  if (type == "NFKC") return std::make_unique<NormalFormStep>(true, true);
  if (type == "NFKD") return std::make_unique<NormalFormStep>(true, false);
  if (type == "Lowercase") return std::make_unique<CharStep>(&AppendLowercase);
  if (type == "Nmt") return std::make_unique<CharStep>(&AppendNmt);
  if (type == "StripAccents") return std::make_unique<CharStep>(&AppendUnlessAccent);
  if (type == "Prepend") {
    ASSIGN_OR_RETURN(std::string prefix, GetString(json, "prepend", "normalizer Prepend"));
    return std::make_unique<PrependStep>(std::move(prefix));
  }
  if (type == "Replace") {
    ASSIGN_OR_RETURN(const PatternSpec pattern, GetPattern(json, "normalizer Replace"));
    ASSIGN_OR_RETURN(std::unique_ptr<SpanFinder> finder, MakePatternFinder(pattern));
    ASSIGN_OR_RETURN(std::string content, GetString(json, "content", "normalizer Replace"));
    return std::make_unique<ReplaceStep>(std::move(finder), std::move(content));
  }
  if (type == "Strip") {
    ASSIGN_OR_RETURN(const bool left, GetBool(json, "strip_left", true, "normalizer Strip"));
    ASSIGN_OR_RETURN(const bool right, GetBool(json, "strip_right", true, "normalizer Strip"));
    return std::make_unique<StripStep>(left, right);
  }
  return Unimplemented("the normalizer \"", type, "\" is not supported");
}

}  // namespace

absl::StatusOr<Normalizer> Normalizer::Parse(const nlohmann::json& json) {
  Normalizer normalizer;
  RETURN_IF_ERROR(VisitComponents(
      json, "normalizers", kWhere,
      [&](const std::string& type, const nlohmann::json& component) -> absl::Status {
        ASSIGN_OR_RETURN(auto step, ParseNormalizer(type, component));
        normalizer.steps_.push_back(std::move(step));
        return absl::OkStatus();
      }));
  return normalizer;
}

absl::Status Normalizer::Apply(std::string* text, RegexScratch* scratch) const {
  for (const std::unique_ptr<NormalizerStep>& step : steps_) {
    RETURN_IF_ERROR(step->Apply(text, scratch));
  }
  return absl::OkStatus();
}

}  // namespace quire

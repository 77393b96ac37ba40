#include "server/text/tokenizer/regex/span_finder.h"

#include <optional>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "server/text/tokenizer/regex/known_patterns.h"
#include "server/text/unicode.h"
#include "server/text/utf8.h"

namespace quire {
namespace {

class LiteralFinder final : public SpanFinder {
 public:
  explicit LiteralFinder(std::string literal) : literal_(std::move(literal)) {
    CHECK(!literal_.empty());
  }

  absl::Status Find(std::string_view text, RegexScratch*, SpanSink sink) const override {
    size_t covered = 0;
    while (covered < text.size()) {
      const size_t begin = text.find(literal_, covered);
      if (begin == std::string_view::npos) break;
      if (covered < begin) RETURN_IF_ERROR(sink({covered, begin, false}));
      covered = begin + literal_.size();
      RETURN_IF_ERROR(sink({begin, covered, true}));
    }
    return covered < text.size() ? sink({covered, text.size(), false}) : absl::OkStatus();
  }

 private:
  const std::string literal_;
};

class RegexFinder final : public SpanFinder {
 public:
  explicit RegexFinder(Regex regex) : regex_(std::move(regex)) {}

  absl::Status Find(std::string_view text, RegexScratch* scratch, SpanSink sink) const override {
    return regex_.FindSpans(text, scratch, sink);
  }

 private:
  const Regex regex_;
};

class KnownPatternFinder final : public SpanFinder {
 public:
  explicit KnownPatternFinder(KnownPattern pattern) : pattern_(pattern) {}

  absl::Status Find(std::string_view text, RegexScratch*, SpanSink sink) const override {
    return FindKnownPattern(pattern_, text, sink);
  }

 private:
  const KnownPattern pattern_;
};

class CharFinder final : public SpanFinder {
 public:
  explicit CharFinder(uint8_t classes) : classes_(classes) {}

  absl::Status Find(std::string_view text, RegexScratch*, SpanSink sink) const override {
    size_t covered = 0;
    for (size_t pos = 0; pos < text.size();) {
      const DecodedChar c = DecodeChar(text.data() + pos);
      const size_t end = pos + c.num_bytes;
      if (table_[c.code_point] & classes_) {
        if (covered < pos) RETURN_IF_ERROR(sink({covered, pos, false}));
        RETURN_IF_ERROR(sink({pos, end, true}));
        covered = end;
      }
      pos = end;
    }
    return covered < text.size() ? sink({covered, text.size(), false}) : absl::OkStatus();
  }

 private:
  const uint8_t* const table_ = CharClasses();
  const uint8_t classes_;
};

class WordFinder final : public SpanFinder {
 public:
  absl::Status Find(std::string_view text, RegexScratch*, SpanSink sink) const override {
    size_t begin = 0;
    int kind = 0;  // of the run that starts at `begin`
    for (size_t pos = 0; pos < text.size();) {
      const DecodedChar c = DecodeChar(text.data() + pos);
      const int next_kind = KindOf(c.code_point);
      if (pos > begin && next_kind != kind) {
        RETURN_IF_ERROR(sink({begin, pos, kind != kSpace}));
        begin = pos;
      }
      kind = next_kind;
      pos += c.num_bytes;
    }
    return begin < text.size() ? sink({begin, text.size(), kind != kSpace}) : absl::OkStatus();
  }

 private:
  int KindOf(char32_t c) const { return table_[c] & kWord ? kWord : table_[c] & kSpace; }

  const uint8_t* const table_ = CharClasses();
};

}  // namespace

absl::StatusOr<std::unique_ptr<SpanFinder>> MakePatternFinder(const PatternSpec& pattern) {
  if (!pattern.is_regex) return MakeLiteralFinder(pattern.text);
  if (const std::optional<KnownPattern> known = RecognizePattern(pattern.text)) {
    return std::make_unique<KnownPatternFinder>(*known);
  }
  ASSIGN_OR_RETURN(Regex regex, Regex::Compile(pattern.text));
  return std::make_unique<RegexFinder>(std::move(regex));
}

std::unique_ptr<SpanFinder> MakeLiteralFinder(std::string text) {
  return std::make_unique<LiteralFinder>(std::move(text));
}

std::unique_ptr<SpanFinder> MakeCharFinder(uint8_t classes) {
  return std::make_unique<CharFinder>(classes);
}

std::unique_ptr<SpanFinder> MakeWordFinder() { return std::make_unique<WordFinder>(); }

}  // namespace quire

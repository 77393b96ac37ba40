#include "server/text/tokenizer/stages/pre_tokenizer.h"

#include <utility>

#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/text/tokenizer/file/components.h"
#include "server/text/tokenizer/file/errors.h"
#include "server/text/tokenizer/regex/known_patterns.h"
#include "server/text/tokenizer/regex/span_finder.h"
#include "server/text/unicode.h"
#include "server/text/utf8.h"

namespace quire {
namespace {

constexpr size_t kMaxSteps = 64;  // each takes some of the stack

// What happens to the matches when a piece is split.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// Makes pieces of the spans that cover a piece, and hands on those that no later span can join.
class Splitter {
 public:
  Splitter(const Piece& piece, SplitBehavior behavior, PieceSink sink)
      : piece_(piece), behavior_(behavior), sink_(sink) {}

  absl::Status Add(size_t begin, size_t end, bool is_match) {
    if (is_match && behavior_ == SplitBehavior::kRemoved) return absl::OkStatus();
    if (!has_pending_ || !JoinsPrevious(is_match)) {
      RETURN_IF_ERROR(Finish());
      begin_ = begin;
      has_pending_ = true;
    }
    end_ = end;
    is_previous_match_ = is_match;
    return absl::OkStatus();
  }

  // Empty matches cut, but are no pieces themselves.
  absl::Status Finish() {
    if (!has_pending_ || begin_ == end_) return absl::OkStatus();
    return sink_({piece_.text.substr(begin_, end_ - begin_), piece_.at_start && begin_ == 0});
  }

 private:
  bool JoinsPrevious(bool is_match) const {
    switch (behavior_) {
      case SplitBehavior::kRemoved:
      case SplitBehavior::kIsolated:
        return false;
      case SplitBehavior::kMergedWithPrevious:
        return is_match && !is_previous_match_;
      case SplitBehavior::kMergedWithNext:
        // Only the last one of several matches in a row is merged.
        return !is_match && is_previous_match_;
      case SplitBehavior::kContiguous:
        return is_match == is_previous_match_;
    }
    return false;
  }

  const Piece& piece_;
  const SplitBehavior behavior_;
  const PieceSink sink_;
  // The piece that may still grow, in bytes from the start of `piece_`.
  size_t begin_ = 0;
  size_t end_ = 0;
  bool has_pending_ = false;
  bool is_previous_match_ = false;
};

class SplitStep final : public PreTokenizerStep {
 public:
  SplitStep(std::unique_ptr<SpanFinder> finder, SplitBehavior behavior, bool invert)
      : finder_(std::move(finder)), behavior_(behavior), invert_(invert) {}

  absl::Status Apply(const Piece& piece, RegexScratch* scratch, PieceSink sink) const override {
    Splitter splitter(piece, behavior_, sink);
    RETURN_IF_ERROR(finder_->Find(piece.text, scratch, [&](const Span& span) {
      return splitter.Add(span.begin, span.end, span.is_match != invert_);
    }));
    return splitter.Finish();
  }

 private:
  const std::unique_ptr<SpanFinder> finder_;
  const SplitBehavior behavior_;
  const bool invert_;
};

// Begins every piece with a blank unless it has one.
class PrefixSpaceStep final : public PreTokenizerStep {
 public:
  absl::Status Apply(const Piece& piece, RegexScratch*, PieceSink sink) const override {
    if (piece.text[0] == ' ') return sink(piece);
    return sink({std::string(" ").append(piece.text), piece.at_start});
  }
};

enum class PrependScheme { kFirst, kNever, kAlways };

// Writes blanks as the replacement character, and one more in front where the scheme says so.
class MetaspaceStep final : public PreTokenizerStep {
 public:
  MetaspaceStep(std::string replacement, PrependScheme scheme)
      : replacement_(std::move(replacement)), scheme_(scheme) {}

  absl::Status Apply(const Piece& piece, RegexScratch*, PieceSink sink) const override {
    std::string text;
    text.reserve(piece.text.size() + piece.text.size() / 2 + replacement_.size());
    if (NeedsPrefix(piece)) text += replacement_;
    for (const char c : piece.text) {
      if (c == ' ') {
        text += replacement_;
      } else {
        text += c;
      }
    }
    return sink({text, piece.at_start});
  }

 private:
  bool NeedsPrefix(const Piece& piece) const {
    const bool has_prefix =
        piece.text[0] == ' ' || piece.text.substr(0, replacement_.size()) == replacement_;
    if (has_prefix || scheme_ == PrependScheme::kNever) return false;
    return scheme_ == PrependScheme::kAlways || piece.at_start;
  }

  const std::string replacement_;
  const PrependScheme scheme_;
};

absl::StatusOr<SplitBehavior> ParseBehavior(const std::string& name, std::string_view where) {
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return InvalidArgument(where, ": unknown behavior \"", name, "\"");
}

std::unique_ptr<PreTokenizerStep> MakeSplit(std::unique_ptr<SpanFinder> finder,
                                            SplitBehavior behavior, bool invert = false) {
  return std::make_unique<SplitStep>(std::move(finder), behavior, invert);
}

absl::StatusOr<std::unique_ptr<PreTokenizerStep>> ParseSplit(const nlohmann::json& json) {
  constexpr char kWhere[] = "pre_tokenizer Split";
  ASSIGN_OR_RETURN(const PatternSpec pattern, GetPattern(json, kWhere));
  ASSIGN_OR_RETURN(std::unique_ptr<SpanFinder> finder, MakePatternFinder(pattern));
  ASSIGN_OR_RETURN(const std::string behavior_name, GetString(json, "behavior", kWhere));
  ASSIGN_OR_RETURN(const SplitBehavior behavior, ParseBehavior(behavior_name, kWhere));
  ASSIGN_OR_RETURN(const bool invert, GetBool(json, "invert", false, kWhere));
  return MakeSplit(std::move(finder), behavior, invert);
}

// A single-character setting.
absl::StatusOr<std::string> GetChar(const nlohmann::json& json, const char* key,
                                    std::string_view where) {
  ASSIGN_OR_RETURN(std::string text, GetString(json, key, where));
  if (text.empty() || ClassifyUtf8Prefix(text).num_bytes != text.size()) {
    return InvalidArgument(where, ": \"", key, "\" must be one character");
  }
  return text;
}

absl::StatusOr<PrependScheme> ParsePrependScheme(const nlohmann::json& json) {
  constexpr char kWhere[] = "pre_tokenizer Metaspace";
  ASSIGN_OR_RETURN(const bool add_prefix_space, GetBool(json, "add_prefix_space", true, kWhere));
  if (!add_prefix_space) return PrependScheme::kNever;
  if (!json.contains("prepend_scheme")) return PrependScheme::kAlways;
  ASSIGN_OR_RETURN(const std::string scheme, GetString(json, "prepend_scheme", kWhere));
  if (scheme == "first") return PrependScheme::kFirst;
  if (scheme == "never") return PrependScheme::kNever;
  if (scheme == "always") return PrependScheme::kAlways;
  return InvalidArgument(kWhere, ": unknown prepend_scheme \"", scheme, "\"");
}

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::Parse(const nlohmann::json& json) {
  PreTokenizer result;
  RETURN_IF_ERROR(VisitComponents(json, "pretokenizers", "pre_tokenizer",
                                  [&](const std::string& type, const nlohmann::json& component) {
                                    return result.AddStep(type, component);
                                  }));
  return result;
}

absl::Status PreTokenizer::AddStep(const std::string& type, const nlohmann::json& json) {
  if (is_byte_level_) {
    return Unimplemented("the pre_tokenizer \"", type, "\" after ByteLevel is not supported");
  }
  if (steps_.size() >= kMaxSteps) {
    return InvalidArgument("the pre_tokenizer has more than ", kMaxSteps, " steps");
  }
  if (type == "Split") {
    ASSIGN_OR_RETURN(std::unique_ptr<PreTokenizerStep> step, ParseSplit(json));
    steps_.push_back(std::move(step));
  } else if (type == "ByteLevel") {
    ASSIGN_OR_RETURN(const bool add_prefix_space,
                     GetBool(json, "add_prefix_space", true, "pre_tokenizer ByteLevel"));
    ASSIGN_OR_RETURN(const bool use_regex,
                     GetBool(json, "use_regex", true, "pre_tokenizer ByteLevel"));
    if (add_prefix_space) steps_.push_back(std::make_unique<PrefixSpaceStep>());
    if (use_regex) {
      const PatternSpec gpt2{true, std::string(PatternText(KnownPattern::kGpt2))};
      ASSIGN_OR_RETURN(std::unique_ptr<SpanFinder> finder, MakePatternFinder(gpt2));
      steps_.push_back(MakeSplit(std::move(finder), SplitBehavior::kIsolated));
    }
    is_byte_level_ = true;
  } else if (type == "Metaspace") {
    ASSIGN_OR_RETURN(const std::string replacement,
                     GetChar(json, "replacement", "pre_tokenizer Metaspace"));
    ASSIGN_OR_RETURN(const PrependScheme scheme, ParsePrependScheme(json));
    ASSIGN_OR_RETURN(const bool split, GetBool(json, "split", true, "pre_tokenizer Metaspace"));
    steps_.push_back(std::make_unique<MetaspaceStep>(replacement, scheme));
    if (split)
      steps_.push_back(MakeSplit(MakeLiteralFinder(replacement), SplitBehavior::kMergedWithNext));
  } else if (type == "Digits") {
    ASSIGN_OR_RETURN(const bool single,
                     GetBool(json, "individual_digits", false, "pre_tokenizer Digits"));
    steps_.push_back(MakeSplit(MakeCharFinder(kNumber),
                               single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous));
  } else if (type == "Punctuation") {
    SplitBehavior behavior = SplitBehavior::kIsolated;
    if (json.contains("behavior")) {
      ASSIGN_OR_RETURN(const std::string name,
                       GetString(json, "behavior", "pre_tokenizer Punctuation"));
      ASSIGN_OR_RETURN(behavior, ParseBehavior(name, "pre_tokenizer Punctuation"));
    }
    steps_.push_back(MakeSplit(MakeCharFinder(kPunctuation), behavior));
  } else if (type == "Whitespace") {
    steps_.push_back(MakeSplit(MakeWordFinder(), SplitBehavior::kRemoved, /*invert=*/true));
  } else if (type == "WhitespaceSplit") {
    steps_.push_back(MakeSplit(MakeCharFinder(kSpace), SplitBehavior::kRemoved));
  } else if (type == "CharDelimiterSplit") {
    ASSIGN_OR_RETURN(std::string delimiter,
                     GetChar(json, "delimiter", "pre_tokenizer CharDelimiterSplit"));
    steps_.push_back(MakeSplit(MakeLiteralFinder(std::move(delimiter)), SplitBehavior::kRemoved));
  } else {
    return Unimplemented("the pre_tokenizer \"", type, "\" is not supported");
  }
  return absl::OkStatus();
}

absl::Status PreTokenizer::Apply(const Piece& text, RegexScratch* scratch, PieceSink sink) const {
  return text.text.empty() ? absl::OkStatus() : ApplyFrom(0, text, scratch, sink);
}

absl::Status PreTokenizer::ApplyFrom(size_t step, const Piece& piece, RegexScratch* scratch,
                                     PieceSink sink) const {
  if (step == steps_.size()) return sink(piece);
  return steps_[step]->Apply(
      piece, scratch, [&](const Piece& part) { return ApplyFrom(step + 1, part, scratch, sink); });
}

}  // namespace quire

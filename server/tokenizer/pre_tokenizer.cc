#include "server/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/tokenizer/errors.h"
#include "server/tokenizer/json_access.h"
#include "server/tokenizer/known_patterns.h"
#include "server/tokenizer/span_finder.h"
#include "server/tokenizer/unicode.h"

namespace quire {
namespace {

using Piece = PreTokens::Piece;

class SplitStep final : public PreTokenizerStep {
 public:
  SplitStep(std::unique_ptr<SpanFinder> finder, SplitBehavior behavior, bool invert)
      : finder_(std::move(finder)), behavior_(behavior), invert_(invert) {}

  absl::Status Apply(PreTokens* tokens, RegexScratch* scratch) const override {
    std::vector<Piece> pieces;
    std::vector<Span> spans;
    for (const Piece& piece : tokens->pieces) {
      spans.clear();
      RETURN_IF_ERROR(finder_->Find(tokens->View(piece), scratch, &spans));
      if (invert_) {
        for (Span& span : spans) span.is_match = !span.is_match;
      }
      AppendSplit(spans, behavior_, piece, &pieces);
    }
    tokens->pieces = std::move(pieces);
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<SpanFinder> finder_;
  const SplitBehavior behavior_;
  const bool invert_;
};

// Begins every piece with a blank unless it has one.
class PrefixSpaceStep final : public PreTokenizerStep {
 public:
  absl::Status Apply(PreTokens* tokens, RegexScratch*) const override {
    PreTokens out;
    out.text.reserve(tokens->text.size() + tokens->pieces.size());
    for (const Piece& piece : tokens->pieces) {
      const size_t begin = out.text.size();
      const std::string_view text = tokens->View(piece);
      if (text[0] != ' ') out.text += ' ';
      out.text.append(text);
      out.pieces.push_back({begin, out.text.size(), piece.at_start});
    }
    *tokens = std::move(out);
    return absl::OkStatus();
  }
};

enum class PrependScheme { kFirst, kNever, kAlways };

// Writes blanks as the replacement character, and one more in front where the scheme says so.
class MetaspaceStep final : public PreTokenizerStep {
 public:
  MetaspaceStep(std::string replacement, PrependScheme scheme)
      : replacement_(std::move(replacement)), scheme_(scheme) {}

  absl::Status Apply(PreTokens* tokens, RegexScratch*) const override {
    PreTokens out;
    out.text.reserve(tokens->text.size() + tokens->text.size() / 2);
    for (const Piece& piece : tokens->pieces) {
      const size_t begin = out.text.size();
      const std::string_view text = tokens->View(piece);
      if (NeedsPrefix(text, piece.at_start)) out.text += replacement_;
      for (const char c : text) {
        if (c == ' ') {
          out.text += replacement_;
        } else {
          out.text += c;
        }
      }
      out.pieces.push_back({begin, out.text.size(), piece.at_start});
    }
    *tokens = std::move(out);
    return absl::OkStatus();
  }

 private:
  bool NeedsPrefix(std::string_view text, bool at_start) const {
    const bool has_prefix = text[0] == ' ' || text.substr(0, replacement_.size()) == replacement_;
    if (has_prefix || scheme_ == PrependScheme::kNever) return false;
    return scheme_ == PrependScheme::kAlways || at_start;
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

void PreTokens::Reset(std::string new_text, bool at_start) {
  text = std::move(new_text);
  pieces.clear();
  if (!text.empty()) pieces.push_back({0, text.size(), at_start});
}

void AppendSplit(const std::vector<Span>& spans, SplitBehavior behavior, const Piece& piece,
                 std::vector<Piece>* pieces) {
  const size_t first = pieces->size();
  bool is_previous_match = false;
  for (const Span& span : spans) {
    const bool has_previous = pieces->size() > first;
    bool joins_previous = false;
    switch (behavior) {
      case SplitBehavior::kRemoved:
        if (span.is_match) continue;
        break;
      case SplitBehavior::kIsolated:
        break;
      case SplitBehavior::kMergedWithPrevious:
        joins_previous = span.is_match && !is_previous_match;
        break;
      case SplitBehavior::kMergedWithNext:
        // Of several matches in a row only the last one is merged.
        joins_previous = !span.is_match && is_previous_match;
        break;
      case SplitBehavior::kContiguous:
        joins_previous = span.is_match == is_previous_match;
        break;
    }
    if (joins_previous && has_previous) {
      pieces->back().end = piece.begin + span.end;
    } else {
      pieces->push_back(
          {piece.begin + span.begin, piece.begin + span.end, piece.at_start && span.begin == 0});
    }
    is_previous_match = span.is_match;
  }
  // Empty matches cut, but are no pieces themselves.
  const auto is_empty = [](const Piece& p) { return p.begin == p.end; };
  pieces->erase(std::remove_if(pieces->begin() + first, pieces->end(), is_empty), pieces->end());
}

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

absl::Status PreTokenizer::Apply(PreTokens* tokens, RegexScratch* scratch) const {
  for (const std::unique_ptr<PreTokenizerStep>& step : steps_)
    RETURN_IF_ERROR(step->Apply(tokens, scratch));
  return absl::OkStatus();
}

}  // namespace quire

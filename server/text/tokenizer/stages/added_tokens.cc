#include "server/text/tokenizer/stages/added_tokens.h"

#include <algorithm>
#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/text/tokenizer/file/components.h"
#include "server/text/tokenizer/file/errors.h"
#include "server/text/unicode.h"
#include "server/text/utf8.h"

namespace quire {
namespace {

constexpr size_t kMaxContentBytes = 4096;  // bounds the work at each byte of a text

bool HasClass(DecodedChar c, uint8_t classes) { return CharClasses()[c.code_point] & classes; }

bool StandsAlone(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && HasClass(DecodeCharBefore(text.data() + begin), kWord)) return false;
  return end == text.size() || !HasClass(DecodeChar(text.data() + end), kWord);
}

// Moves `begin` left over white space, to `limit` at most.
size_t ExtendLeft(std::string_view text, size_t limit, size_t begin) {
  while (begin > limit) {
    const DecodedChar c = DecodeCharBefore(text.data() + begin);
    if (!HasClass(c, kSpace)) break;
    begin -= c.num_bytes;
  }
  return begin;
}

size_t ExtendRight(std::string_view text, size_t end) {
  while (end < text.size()) {
    const DecodedChar c = DecodeChar(text.data() + end);
    if (!HasClass(c, kSpace)) break;
    end += c.num_bytes;
  }
  return end;
}

absl::Status TooLong(const std::string& content) {
  return InvalidArgument("added_tokens: a content of ", content.size(), " bytes; at most ",
                         kMaxContentBytes, " are supported");
}

absl::StatusOr<AddedToken> ParseToken(const nlohmann::json& json) {
  AddedToken token;
  ASSIGN_OR_RETURN(token.content, GetString(json, "content", "added_tokens"));
  const std::string where = Concat("added_tokens: \"", token.content, "\"");
  if (token.content.size() > kMaxContentBytes) return TooLong(token.content);
  ASSIGN_OR_RETURN(const int64_t id, GetCount(json, "id", kMaxTokenId, where));
  token.id = static_cast<TokenId>(id);
  ASSIGN_OR_RETURN(token.single_word, GetBool(json, "single_word", false, where));
  ASSIGN_OR_RETURN(token.lstrip, GetBool(json, "lstrip", false, where));
  ASSIGN_OR_RETURN(token.rstrip, GetBool(json, "rstrip", false, where));
  ASSIGN_OR_RETURN(token.special, GetBool(json, "special", false, where));
  ASSIGN_OR_RETURN(token.normalized, GetBool(json, "normalized", !token.special, where));
  return token;
}

}  // namespace

void AddedTokenMatcher::Add(std::string_view pattern, const AddedToken* token) {
  CHECK(!pattern.empty());
  uint32_t node = 0;
  is_first_byte_[static_cast<uint8_t>(pattern[0])] = true;
  for (const char c : pattern) {
    const uint64_t key = uint64_t{node} << 8 | static_cast<uint8_t>(c);
    const auto [child, is_new] = children_.try_emplace(key, static_cast<uint32_t>(nodes_.size()));
    if (is_new) nodes_.push_back(nullptr);
    node = child->second;
  }
  nodes_[node] = token;
}

// The longest token that `text` starts with; a special one only if it ends by `special_limit`.
AddedTokenMatcher::Match AddedTokenMatcher::LongestMatch(std::string_view text,
                                                         size_t special_limit) const {
  Match longest = {nullptr, 0, 0};
  uint32_t node = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    ++longest.num_steps;
    const auto child = children_.find(uint64_t{node} << 8 | static_cast<uint8_t>(text[i]));
    if (child == children_.end()) break;
    node = child->second;
    const AddedToken* token = nodes_[node];
    if (token != nullptr && (!token->special || i < special_limit)) {
      longest.token = token;
      longest.num_bytes = i + 1;
    }
  }
  return longest;
}

absl::Status AddedTokenMatcher::Split(std::string_view text,
                                      absl::Span<const ByteRange> special_ranges, Sink sink,
                                      size_t* num_steps) const {
  size_t steps = 0;
  size_t covered = 0;     // the spans so far end here
  size_t spaces_end = 0;  // white space after the last token that takes it along ends here
  auto range = special_ranges.begin();
  for (size_t pos = 0; pos < text.size();) {
    if (!is_first_byte_[static_cast<uint8_t>(text[pos])]) {
      ++pos;
      continue;
    }
    while (range != special_ranges.end() && range->end <= pos) ++range;
    const bool may_be_special = range != special_ranges.end() && range->begin <= pos;
    const Match match = LongestMatch(text.substr(pos), may_be_special ? range->end - pos : 0);
    steps += match.num_steps;
    if (match.token == nullptr) {
      ++pos;
      continue;
    }
    size_t begin = pos;
    size_t end = pos + match.num_bytes;
    pos = end;
    if (match.token->single_word && !StandsAlone(text, begin, end)) continue;
    if (match.token->rstrip) {
      // A token within that white space takes the same along: looking once keeps the time linear.
      if (end > spaces_end) {
        spaces_end = ExtendRight(text, end);
        steps += spaces_end - end;
      }
      end = spaces_end;
    }
    if (match.token->lstrip) {
      // White space itself, and the token before took all of it: nothing is left to be this one.
      if (end <= covered) continue;
      begin = ExtendLeft(text, covered, begin);
    }
    if (covered < begin) RETURN_IF_ERROR(sink({covered, begin, kNoToken}));
    RETURN_IF_ERROR(sink({begin, end, match.token->id}));
    // Not `pos`: white space that the token took may be a token, too, as in the reference.
    covered = end;
  }
  if (num_steps != nullptr) *num_steps += steps;
  return covered < text.size() ? sink({covered, text.size(), kNoToken}) : absl::OkStatus();
}

absl::StatusOr<AddedTokens> AddedTokens::Parse(const nlohmann::json& json, Vocabulary* vocabulary) {
  AddedTokens result;
  if (json.is_null()) return result;
  if (!json.is_array()) return InvalidArgument("\"added_tokens\" must be an array");
  for (const nlohmann::json& item : json) {
    ASSIGN_OR_RETURN(AddedToken token, ParseToken(item));
    if (token.content.empty()) continue;
    RETURN_IF_ERROR(vocabulary->Add(token.content, token.id));
    result.Append(std::move(token));
  }
  return result;
}

absl::Status AddedTokens::Add(const AddedTokenSetting& setting, Vocabulary* vocabulary) {
  AddedToken token = setting.token;
  if (token.content.empty()) return absl::OkStatus();
  if (token.content.size() > kMaxContentBytes) return TooLong(token.content);
  token.id = vocabulary->Find(token.content);
  if (const auto position = positions_.find(token.id); position != positions_.end()) {
    if (setting.if_known == IfKnown::kKeep) return absl::OkStatus();
    AddedToken& known = tokens_[position->second];
    if (setting.if_known == IfKnown::kReplace) known = std::move(token);
    if (setting.if_known == IfKnown::kMakeSpecial) known.special = true;
    special_ids_.erase(known.id);
    if (known.special) special_ids_.insert(known.id);
    return absl::OkStatus();
  }
  if (token.id == kNoToken) {
    if (!setting.may_be_new) return absl::OkStatus();
    token.id = static_cast<TokenId>(vocabulary->size());
  }
  RETURN_IF_ERROR(vocabulary->Add(token.content, token.id));
  Append(std::move(token));
  return absl::OkStatus();
}

void AddedTokens::Append(AddedToken token) {
  if (token.special) special_ids_.insert(token.id);
  positions_[token.id] = tokens_.size();
  tokens_.push_back(std::move(token));
}

absl::Status AddedTokens::Index(const Normalizer& normalizer) {
  RegexScratch scratch;
  for (const AddedToken& token : tokens_) {
    if (token.special || !token.normalized) {
      raw_.Add(token.content, &token);
      continue;
    }
    std::string pattern = token.content;
    RETURN_IF_ERROR(normalizer.Apply(&pattern, &scratch));
    if (pattern.empty()) continue;
    normalized_.Add(pattern, &token);
    if (pattern != token.content) decoded_forms_.emplace(token.id, std::move(pattern));
  }
  return absl::OkStatus();
}

}  // namespace quire

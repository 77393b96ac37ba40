#include "tools/bench/serve/prompt_words.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/bench/failure.h"

namespace quire::bench {

namespace {

// Most tokenizers have one token for each, with the space before it.
constexpr const char* kWords[] = {
    "the",   "of",    "and", "to",   "in",   "is",     "that", "for", "it",   "as",    "was",
    "with",  "be",    "by",  "on",   "not",  "he",     "this", "are", "or",   "his",   "from",
    "at",    "which", "but", "have", "an",   "had",    "they", "you", "were", "their", "one",
    "all",   "we",    "can", "her",  "has",  "there",  "been", "if",  "more", "when",  "will",
    "would", "who",   "so",  "no",   "time", "people", "way",  "day", "man",  "thing", "work"};

// Those that are a token each, with the space before them.
std::vector<std::string> WordsOf(const Tokenizer& tokenizer) {
  constexpr size_t kEnough = 1000;
  std::vector<std::string> words;
  for (TokenId id = 0; id < tokenizer.vocab_size() && words.size() < kEnough; ++id) {
    const std::string bytes = tokenizer.TokenBytes(id);
    if (tokenizer.IsSpecial(id) || bytes.size() < 3 || bytes[0] != ' ') continue;
    const bool is_word = std::all_of(bytes.begin() + 1, bytes.end(), [](char c) {
      return absl::ascii_islower(static_cast<unsigned char>(c));
    });
    if (is_word) words.push_back(bytes.substr(1));
  }
  // Rather those that are one token at the beginning of a text, too.
  std::vector<std::string> anywhere;
  for (const std::string& word : words) {
    if (CountTokens(tokenizer, word) == 1) anywhere.push_back(word);
  }
  return anywhere.empty() ? words : anywhere;
}

}  // namespace

PromptWords::PromptWords(uint64_t seed, std::shared_ptr<const Tokenizer> tokenizer)
    : seed_(seed), tokenizer_(std::move(tokenizer)) {
  if (tokenizer_ != nullptr) words_ = WordsOf(*tokenizer_);
  if (words_.empty()) words_.assign(std::begin(kWords), std::end(kWords));
}

absl::StatusOr<std::string> PromptWords::Text(absl::Span<const int32_t> ids) const {
  constexpr int kTries = 16;
  std::vector<absl::string_view> words;
  for (const int32_t id : ids) words.push_back(Word(id));
  if (tokenizer_ == nullptr) return absl::StrJoin(words, " ");
  for (int i = 0; i < kTries && !words.empty(); ++i) {
    std::string text = absl::StrJoin(words, " ");
    const auto tokens = tokenizer_->Encode(text);
    if (!tokens.ok()) break;
    if (tokens->size() == ids.size()) return text;
    // A word may be several tokens where it comes first.
    for (size_t n = tokens->size(); n < ids.size(); ++n) words.push_back(Word(ids[n]));
    const size_t too_many = tokens->size() - std::min(tokens->size(), ids.size());
    words.resize(words.size() - std::min(words.size(), too_many));
  }
  return UsageError(absl::StrCat("--tokenizer: no text of exactly ", ids.size(),
                                 " tokens was found; ask for longer prompts"));
}

int64_t CountTokens(const Tokenizer& tokenizer, const std::string& text) {
  const auto tokens = tokenizer.Encode(text, {.add_special_tokens = false});
  return tokens.ok() ? static_cast<int64_t>(tokens->size()) : 0;
}

}  // namespace quire::bench

// Reads the JSON of tokenizer.json, which is untrusted: bounded depth and number of values, no
// recursion, and the two big tables (model.vocab and model.merges) straight into arrays. One call,
// one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace quire {

class TokenizerFile {
 public:
  // INVALID_ARGUMENT names the place of a syntax error or the table that is malformed.
  static absl::StatusOr<TokenizerFile> Parse(std::string_view json);

  // Everything except the two tables. An object.
  const nlohmann::json& rest() const { return rest_; }

  // model.vocab: texts[i] has ids[i]. The views live as long as this object.
  std::vector<std::string_view> VocabTexts() const;
  const std::vector<int64_t>& vocab_ids() const { return vocab_ids_; }

  // The scores of model.vocab if it is a list of [text, score], as Unigram has it; else empty. They
  // are the ones that Hugging Face tokenizers read; such a score may be a neighbour of the nearest
  // double.
  const std::vector<double>& vocab_scores() const { return vocab_scores_; }

  // model.merges by rank, from either form ("a b" or ["a", "b"]).
  std::vector<std::pair<std::string_view, std::string_view>> Merges() const;

 private:
  friend class TokenizerFileReader;
  struct Text {
    size_t begin;
    size_t num_bytes;
  };
  std::string_view View(Text text) const {
    return std::string_view(bytes_).substr(text.begin, text.num_bytes);
  }

  nlohmann::json rest_;
  std::string bytes_;  // of all texts of the tables
  std::vector<Text> vocab_texts_;
  std::vector<int64_t> vocab_ids_;
  std::vector<double> vocab_scores_;
  std::vector<Text> merge_texts_;  // left and right in turn
};

}  // namespace quire

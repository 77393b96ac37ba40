// Small tokenizer.json files for tests, and short cuts around them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "server/text/tokenizer/tokenizer.h"

namespace quire::testing {

using Merges = std::vector<std::pair<std::string, std::string>>;

// A byte-level BPE in the manner of GPT-2: ids 0..255 are the bytes, then one id per merge, in
// order. `merges` are written in the byte-level alphabet ("Ġ" is a blank).
nlohmann::json ByteLevelJson(const Merges& merges);

// A character-level BPE in the manner of Llama 2: id 0 is <unk>, 1..256 are the byte tokens, then
// one id per character of `alphabet`, then one per merge. "▁" is a blank; text gets one in front.
nlohmann::json SentencePieceJson(const std::vector<std::string>& alphabet, const Merges& merges);

// A Unigram of these texts and scores, by id from 1; id 0 is <unk>.
using Pieces = std::vector<std::pair<std::string, double>>;
nlohmann::json UnigramJson(const Pieces& pieces, double unk_score = 0);

// Adds an added token with the next free id, or with the id of an existing token of that text.
// `flags` are the members to set, for example {{"special", true}}. Returns its id.
TokenId AddToken(nlohmann::json* tokenizer, std::string_view content, const nlohmann::json& flags);

// A Split pre-tokenizer with a regular expression, before ByteLevel without one.
nlohmann::json SplitThenBytes(std::string_view regex);

// The tokenizer; fails the test when it cannot be made.
std::shared_ptr<const Tokenizer> Make(const nlohmann::json& tokenizer,
                                      std::string_view config = "");

// The token texts of `text`, so that expectations can be read.
std::vector<std::string> Tokens(const Tokenizer& tokenizer, std::string_view text,
                                EncodeOptions options = {});

// A text of random characters, from ASCII and blanks to marks, CJK, emoji and Unicode 16.0.
std::string RandomText(uint64_t seed, size_t num_chars);

}  // namespace quire::testing

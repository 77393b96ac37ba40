// The properties that every tokenizer must have, whatever its file, the text and the ids are.
// Aborts where it does not have them.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "server/text/tokenizer/tokenizer.h"

namespace quire::fuzz {

// Text that is not UTF-8 is refused, other text becomes ids of the vocabulary (or is too much for
// the patterns, which may give up); text by itself makes no special tokens. Returns the ids.
std::vector<TokenId> CheckedEncode(const Tokenizer& tokenizer, std::string_view text);

// Decoding token by token gives the text of decoding at once, in whole characters.
void CheckDecoding(const std::shared_ptr<const Tokenizer>& tokenizer,
                   const std::vector<TokenId>& ids);

}  // namespace quire::fuzz

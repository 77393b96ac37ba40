// The tokenizers that text is fuzzed with: the bundled model's and small ones of other kinds.
#pragma once

#include <memory>
#include <vector>

#include "server/text/tokenizer/tokenizer.h"

namespace quire::fuzz {

// Made once. The first is byte-level without a normal form: it gives back every text exactly.
const std::vector<std::shared_ptr<const Tokenizer>>& TestTokenizers();

}  // namespace quire::fuzz

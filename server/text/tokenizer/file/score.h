// The scores of a Unigram vocabulary as Hugging Face tokenizers read them. Pure; any thread.
#pragma once

#include <string_view>

namespace quire {

// The value that the reference's JSON reader gives `number`, a number of valid JSON: as many of its
// digits as fit 64 bits, rounded, then times or over a power of ten, rounded again. Of the scores
// that are written with 17 digits about one in eight is not the nearest double, and this decides
// between spellings whose scores add up to nearly the same. Infinite where the reader refuses it.
double ReadScore(std::string_view number);

}  // namespace quire

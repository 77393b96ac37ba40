// The scores of a Unigram vocabulary as Hugging Face tokenizers read them. Pure; any thread.
#pragma once

#include <string_view>

namespace quire {

// The value that the reference's JSON reader gives `number`, a number of valid JSON. It takes as
// many of its digits as fit 64 bits, rounded, times or over a power of ten, and rounds again. For
// scores that are written with 17 digits, about one in eight is not the nearest double, and this
// decides between spellings whose scores add up to nearly the same. Infinite if the reader refuses
// the number.
double ReadScore(std::string_view number);

}  // namespace quire

// The steps that a decoder is made of, one factory each. Internal to decoder.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/text/tokenizer/stages/decoder.h"

namespace quire {

// Joins all tokens; each stands for bytes in the byte-level alphabet. A byte that is part of no
// character becomes U+FFFD, as does an unfinished character at the end.
std::unique_ptr<DecoderStep> MakeByteLevelStep();

// Turns runs of byte tokens ("<0xE2>") into characters; each byte that is not part of a character
// becomes U+FFFD.
std::unique_ptr<DecoderStep> MakeByteFallbackStep();

// Joins all tokens.
std::unique_ptr<DecoderStep> MakeFuseStep();

// Replaces a literal within each token.
std::unique_ptr<DecoderStep> MakeReplaceStep(const std::string& literal,
                                             const std::string& content);

// Removes the character `content` up to `start` times at the start of each token and up to `stop`
// times at its end.
std::unique_ptr<DecoderStep> MakeStripStep(std::string content, int64_t start, int64_t stop);

// Turns `replacement` into a blank; in the first token into nothing, if `drops_first`.
std::unique_ptr<DecoderStep> MakeMetaspaceStep(const std::string& replacement, bool drops_first);

// Turns `suffix` into a blank; in the last token into nothing.
std::unique_ptr<DecoderStep> MakeSuffixStep(const std::string& suffix);

// Puts a blank between tokens, as a tokenizer without a decoder does.
std::unique_ptr<DecoderStep> MakeBlanksStep();

}  // namespace quire

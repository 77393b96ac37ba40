// Random bytes that nobody can guess, from OpenSSL's generator. Any thread.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace quire {

// Fills `bytes`. A call of the generator takes a microsecond, however few bytes it makes, so each
// thread keeps a block of bytes in store.
void FillRandom(absl::Span<uint8_t> bytes);

}  // namespace quire

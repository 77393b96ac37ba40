// Random bytes that nobody can guess, of OpenSSL's generator. Any thread.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace quire {

// Fills `bytes`. A call of the generator takes a microsecond however little it is asked for, so
// each thread has a block of it in store.
void FillRandom(absl::Span<uint8_t> bytes);

}  // namespace quire

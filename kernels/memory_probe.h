// Work that only reads or copies memory, 16 bytes or more at a time. Benchmarks compare
// memory-bound operations with its speed on the same device in the same run. Can be captured in a
// graph.
#pragma once

#include <cstdint>

#include "kernels/backend.h"

namespace quire {

// Reads [data, data + bytes) once; bytes is a multiple of 64. `sink` (4 bytes on the device) keeps
// the reads alive.
void EnqueueRead(Backend& backend, Stream& stream, const void* data, int64_t bytes, uint32_t* sink);

// Copies [from, from + bytes) to `to`; bytes is a multiple of 64.
void EnqueueCopy(Backend& backend, Stream& stream, void* to, const void* from, int64_t bytes);

}  // namespace quire

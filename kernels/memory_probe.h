// Work that does nothing but read or copy memory, 16 bytes and more at a time. Its speed is the
// ceiling that benchmarks measure memory-bound operations against, on the device and in the run at
// hand. Can be captured in a graph.
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

// The GPU's half of kernels/memory_probe.h.
#pragma once

#include <cstdint>

#include "kernels/device.h"

namespace quire::cuda {

void EnqueueRead(Stream& stream, const void* data, int64_t bytes, uint32_t* sink);
void EnqueueCopy(Stream& stream, void* to, const void* from, int64_t bytes);

}  // namespace quire::cuda

// The GPU's half of kernels/read_probe.h.
#pragma once

#include <cstdint>

#include "kernels/device.h"

namespace quire::cuda {

void EnqueueRead(Stream& stream, const void* data, int64_t bytes, uint32_t* sink);

}  // namespace quire::cuda

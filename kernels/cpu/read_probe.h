// The CPU's half of kernels/read_probe.h: all threads read, each a part.
#pragma once

#include <cstdint>

#include "kernels/cpu/runtime/cpu_device.h"

namespace quire::cpu {

void EnqueueRead(ThreadPool& pool, Stream& stream, const void* data, int64_t bytes, uint32_t* sink);

}  // namespace quire::cpu

// The CPU's half of kernels/memory_probe.h: all threads work, each on a part.
#pragma once

#include <cstdint>

#include "kernels/cpu/runtime/cpu_device.h"

namespace quire::cpu {

void EnqueueRead(ThreadPool& pool, Stream& stream, const void* data, int64_t bytes, uint32_t* sink);
void EnqueueCopy(ThreadPool& pool, Stream& stream, void* to, const void* from, int64_t bytes);

}  // namespace quire::cpu

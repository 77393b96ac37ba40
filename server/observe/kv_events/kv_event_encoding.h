// Writes events of the prefix cache as vLLM's publishers do: MessagePack of [time, [event, ...],
// data_parallel_rank], where an event is ["BlockStored", ...] or the like. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "engine/kv_events/kv_event.h"

namespace quire {

std::string EncodeKvEvents(const KvEventBatch& batch, int32_t block_size);

}  // namespace quire

// EngineParts: everything the engine owns, opened in order: device, weights, decoder, runner, KV
// cache, scheduler. Split from engine.cc so that start-up (which can fail) reads apart from
// serving.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/engine_config.h"
#include "engine/engine_status.h"
#include "engine/model/decoder.h"
#include "engine/runner/model_runner.h"
#include "engine/start_clock.h"
#include "kernels/backend.h"
#include "kvcache/kv_arena.h"
#include "scheduler/scheduler.h"

namespace quire {

// Members are destroyed in reverse: what uses the device goes before it.
struct EngineParts {
  ModelInfo model;
  MemoryLedger ledger;
  StartClock stages;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Weights> weights;
  std::unique_ptr<Decoder> decoder;
  std::unique_ptr<KvArena> kv_arena;
  std::unique_ptr<ModelRunner> runner;
  std::unique_ptr<Scheduler> scheduler;
};

// Errors as in Engine::Open.
absl::StatusOr<std::unique_ptr<EngineParts>> OpenEngineParts(const EngineConfig& config,
                                                             std::unique_ptr<Backend> backend);

// Blocks of `layout` for the KV cache: from config.kv_cache_bytes if set; on CUDA what
// gpu_memory_utilization leaves of the device; on the CPU half of the free memory, at most 4 GiB.
// RESOURCE_EXHAUSTED, with the figures and what to change, when not even one sequence of
// max_model_len tokens fits.
absl::StatusOr<int64_t> PlanNumBlocks(const EngineConfig& config, const KvLayout& layout,
                                      int64_t max_model_len, const MemoryInfo& memory);

}  // namespace quire

// EngineParts: everything the engine owns, opened in order: device, memory plan, weights, decoder,
// addresses of the KV cache, runner, the cache's memory, scheduler. Split from engine.cc so that
// start-up (which can fail) reads apart from serving.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine_config.h"
#include "engine/engine_status.h"
#include "engine/model/decoder.h"
#include "engine/runner/model_runner.h"
#include "engine/start_clock.h"
#include "engine/start_plan.h"
#include "kernels/backend.h"
#include "kvcache/kv_arena.h"
#include "scheduler/scheduler.h"

namespace quire {

// Members are destroyed in reverse: what uses the device goes before it.
struct EngineParts : StartPlan {
  MemoryLedger ledger;
  StartClock stages;
  std::vector<AttentionGeometry> geometries;  // of its layer groups
  std::unique_ptr<Backend> backend;
  AttentionPaths attention;  // the backend's
  std::unique_ptr<Weights> weights;
  std::unique_ptr<Decoder> decoder;
  StateArena state_arena;
  std::unique_ptr<KvArena> kv_arena;
  std::unique_ptr<ModelRunner> runner;
  std::unique_ptr<Scheduler> scheduler;
};

// Steps of the warm-up that ends every start: one that reads a prompt, and decodes.
inline constexpr int kNumWarmUpSteps = 3;

// Errors as in Engine::Open.
absl::StatusOr<std::unique_ptr<EngineParts>> OpenEngineParts(const EngineConfig& config,
                                                             std::unique_ptr<Backend> backend);

}  // namespace quire

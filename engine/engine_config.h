// EngineConfig: everything the engine can be told. The server's settings fill it; tools and tests
// fill it directly. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "engine/kv_events/kv_event_log.h"
#include "engine/model/weights.h"
#include "engine/runner/step_trace.h"
#include "kernels/backend.h"
#include "kernels/base/progress.h"

namespace quire {

struct EngineConfig {
  // Affects what is computed.
  std::string model_folder;  // Hugging Face folder with config.json
  LoadFormat load_format = LoadFormat::kAuto;
  // Unset: the checkpoint's, if the device computes in it (serving_dtype.h).
  std::optional<DType> dtype;
  LoadQuantization quantization = LoadQuantization::kNone;
  // Unset: e4m3 where the checkpoint is made for it, else that of the activations.
  std::optional<DType> kv_cache_dtype;
  // Layers with a cache in the activations' dtype all the same: indices, or "sliding_window".
  std::vector<std::string> kv_cache_dtype_skip_layers;
  // Of recurrent states. Unset: as the model says, on the CPU float32.
  std::optional<DType> state_dtype;
  bool calculate_kv_scales = false;  // of an 8-bit cache, instead of the checkpoint's
  uint64_t seed = 0;                 // of dummy weights
  // Of dummy weights: a router's rows have lengths from 1 to 1 more than this, so that some experts
  // are chosen by many tokens and many by few. 0: all are alike.
  double dummy_router_skew = 0;
  int64_t max_model_len = 0;  // 0: the model's, or less where memory is short

  // Affects speed and memory.
  DeviceKind device = DeviceKind::kCpu;
  int num_threads = 0;  // that compute on the CPU or read weights; 0 = one per core
  std::string cpu_isa;  // CPU: as in BackendOptions
  bool cpu_compress_weights = true;
  int64_t max_num_seqs = 0;            // 0: what makes this device fastest
  int64_t max_num_batched_tokens = 0;  // likewise
  int32_t block_size = 16;             // tokens
  // Tokens from one snapshot of a prompt's or an answer's states to the next; a multiple of
  // kSnapshotGrid.
  int32_t snapshot_interval = 1024;
  // The share of the GPU's memory that weights, activations and cache may take.
  double gpu_memory_utilization = 0.9;
  int64_t kv_cache_memory_bytes = 0;  // 0: sized from the memory found at start
  // Of recurrent states, those of running sequences and snapshots. 0: a share of that memory.
  int64_t state_cache_memory_bytes = 0;
  bool enable_prefix_caching = true;
  bool enforce_eager = false;  // no captured graphs
  // Steps in which each sequence has one of these many query tokens (ascending) are captured as far
  // as the attention path can be: 1 for decodes.
  std::vector<int32_t> uniform_query_lens = {1};
  bool count_experts = false;                   // that tokens choose: EngineMetrics::expert_tokens
  bool autotune = true;                         // measure how to compute them, at start
  bool async_scheduling = true;                 // schedule step N+1 while step N runs
  std::optional<AttentionPath> attention_path;  // unset: chosen at start
  // Prefixes that decodes share are read once for all of them if that saves reading at least this
  // many tokens. 0: never; unset: as is fastest on the device.
  std::optional<int64_t> min_prefix_tokens;

  StepTrace* step_trace = nullptr;  // outlives the engine; null: nothing is traced
  Progress* progress = nullptr;     // of the start; outlives Engine::Open; null: nobody watches

  // Bounds.
  absl::Duration watchdog_timeout = absl::InfiniteDuration();  // of one step, then the engine fails
  int64_t max_num_queued_reqs = 4096;
  int64_t max_num_queued_tokens = 1 << 24;
  KvEventLog::Limits kv_event_limits = {};  // kept for subscribers to the prefix cache

  BackendOptions backend_options() const {
    return {.kind = device,
            .num_threads = num_threads,
            .cpu_isa = cpu_isa,
            .cpu_compress_weights = cpu_compress_weights};
  }
};

}  // namespace quire

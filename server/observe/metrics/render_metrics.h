// RenderMetrics: the page /metrics: the counts of engine and server, under vLLM's names if vLLM has
// one, else under ours (quire_). docs/metrics.md lists them. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "engine/engine_status.h"
#include "engine/metrics/engine_metrics.h"
#include "server/observe/metrics/exemplars.h"
#include "server/observe/metrics/metric_text.h"
#include "server/observe/metrics/server_metrics.h"

namespace quire {

// The load that one principal puts on the server.
struct PrincipalLoad {
  std::string name;
  int64_t num_requests = 0;  // accepted and unfinished
  int64_t num_waiting = 0;   // continuations in the engine's queue
};

struct MetricSources {
  EngineStatus status;
  const EngineMetrics* engine;
  const ModelInfo* model;
  const MemoryLedger* memory;
  const ServerMetrics* server;
  const Exemplars* exemplars = nullptr;  // null: nothing is recorded
  std::string model_name;
  bool has_prefix_cache = true;
  std::vector<PrincipalLoad> principals;
  int64_t num_connections = 0;
  int64_t num_held_bytes = 0;  // bytes that clients make the server hold
  absl::Time start_time;
};

std::string RenderMetrics(const MetricSources& sources, MetricFormat format);

}  // namespace quire

// ServingContext: the parts of the running server that the services need, as plain pointers. The
// parts outlive the services; any thread may use them.
#pragma once

#include <atomic>

#include "absl/time/time.h"
#include "server/auth/gate.h"
#include "server/observe/log/access_log.h"
#include "server/observe/log/recent_requests.h"
#include "server/observe/metrics/server_metrics.h"
#include "server/request/generate/generate_handler.h"
#include "server/request/generate/prompt_encoder.h"
#include "server/request/generate/work_pool.h"
#include "server/request/model_facts.h"
#include "server/request/request_registry.h"

namespace quire {

class Engine;
class ModelAnswers;

struct ServingContext {
  Engine* engine;
  GenerateHandler* generate;
  RequestRegistry* registry;
  WorkPool* work_pool;
  const PromptEncoder* encoder;
  const ModelFacts* model;
  absl::Time start_time;
  const Gate* gate;       // who may call what
  AccessLog* access_log;  // null: no line for each call
  ServerMetrics* metrics;
  const Exemplars* exemplars;  // null: nothing is recorded
  bool has_prefix_cache;
  const ModelAnswers* answers;
  RecentRequests* recent_requests;
};

}  // namespace quire

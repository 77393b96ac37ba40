// ServingContext: what the services need of the running server. Plain pointers to parts that
// outlive the services; the parts may be used by any thread.
#pragma once

#include <atomic>

#include "absl/time/time.h"
#include "server/generate/generate_handler.h"
#include "server/generate/model_facts.h"
#include "server/generate/prompt_encoder.h"
#include "server/generate/request_registry.h"
#include "server/generate/work_pool.h"
#include "server/rpc/live_calls.h"

namespace quire {

class Engine;

struct ServingContext {
  Engine* engine;
  GenerateHandler* generate;
  RequestRegistry* registry;
  LiveCalls* live_calls;
  WorkPool* work_pool;
  const PromptEncoder* encoder;
  const ModelFacts* model;
  absl::Time start_time;
};

}  // namespace quire

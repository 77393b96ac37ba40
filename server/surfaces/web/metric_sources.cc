#include "server/surfaces/web/metric_sources.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "engine/engine.h"

namespace quire {

namespace {

// The server's keys have names, and they are few. Clients without a key are counted together, by
// the kind of their name, so that a page has no more lines on a day with many visitors.
std::string ShownName(const std::string& principal) {
  for (const absl::string_view kind : {"peer", "cert"}) {
    if (absl::StartsWith(principal, kind) && principal.substr(kind.size(), 1) == ":") {
      return std::string(kind);
    }
  }
  return principal;
}

uint64_t FlowOfName(const std::string& name) {
  Principal principal;
  principal.name = name;
  return FlowId(principal);
}

std::vector<PrincipalLoad> PrincipalLoads(const ServingContext& context) {
  std::vector<PrincipalLoad> loads;
  for (const auto& [principal, num_requests] : context.registry->NumRunning()) {
    const std::string name = ShownName(principal);
    const auto shown = std::find_if(loads.begin(), loads.end(),
                                    [&](const PrincipalLoad& load) { return load.name == name; });
    PrincipalLoad& load =
        shown != loads.end() ? *shown : loads.emplace_back(PrincipalLoad{.name = name});
    load.num_requests += num_requests;
    load.num_waiting += context.engine->QueueHeldBy(FlowOfName(principal)).num_places;
  }
  std::sort(loads.begin(), loads.end(),
            [](const PrincipalLoad& a, const PrincipalLoad& b) { return a.name < b.name; });
  return loads;
}

}  // namespace

MetricSources GatherMetrics(const ServingContext& context, const ConnectionLoad& load) {
  return {.status = context.engine->status(),
          .engine = &context.engine->metrics(),
          .model = &context.engine->model_info(),
          .memory = &context.engine->memory_ledger(),
          .server = context.metrics,
          .exemplars = context.exemplars,
          .model_name = context.model->served_names.front(),
          .has_prefix_cache = context.has_prefix_cache,
          .principals = PrincipalLoads(context),
          .num_connections = load.num_connections,
          .num_held_bytes = load.num_held_bytes,
          .start_time = context.start_time};
}

}  // namespace quire

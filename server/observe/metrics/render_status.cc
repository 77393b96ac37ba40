#include "server/observe/metrics/render_status.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "kernels/base/clock.h"
#include "kernels/base/types.h"
#include "server/base/version.h"
#include "server/observe/metrics/process_metrics.h"

namespace quire {

namespace {

using Json = nlohmann::ordered_json;

std::string ToText(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

const char* StateOf(const EngineStatus& status) {
  if (status.failed) return "failed";
  return status.admitting ? "serving" : "draining";
}

Json OfModel(const MetricSources& sources) {
  const ModelInfo& model = *sources.model;
  return {{"name", sources.model_name},
          {"architecture", model.config.architecture},
          {"num_parameters", model.num_parameters},
          {"dtype", DTypeName(model.dtype)},
          {"kv_cache_dtype", DTypeName(model.kv_cache_dtype)},
          {"max_model_len", model.max_model_len},
          {"device", model.device_name}};
}

Json OfLoad(const MetricSources& sources) {
  const SchedulerStats& scheduler = sources.status.scheduler;
  return {
      {"running", scheduler.num_running}, {"max_running", sources.model->max_num_seqs},
      {"waiting", scheduler.num_waiting}, {"waiting_prompt_tokens", scheduler.num_waiting_tokens},
      {"paused", scheduler.num_paused},   {"connections", sources.num_connections}};
}

Json OfCache(const MetricSources& sources) {
  const BlockStats& blocks = sources.status.scheduler.blocks;
  return {{"block_size", sources.model->block_size},
          {"num_blocks", blocks.num_blocks},
          {"held_blocks", blocks.num_held},
          {"cached_blocks", blocks.num_cached_free},
          {"shares_prefixes", sources.has_prefix_cache}};
}

// Recurrent states; there are no slots where no layer keeps any.
Json OfStates(const MetricSources& sources) {
  const StateStats& states = sources.status.scheduler.blocks.states;
  return {{"bytes_each", sources.model->state_bytes},
          {"num_slots", states.num_slots},
          {"live", states.num_live},
          {"snapshots", states.num_snapshots}};
}

// Since start; they only grow.
Json OfCounters(const MetricSources& sources, uint64_t num_ended) {
  const EngineMetrics& engine = *sources.engine;
  const SchedulerStats& scheduler = sources.status.scheduler;
  uint64_t num_refused = 0;
  for (int i = 0; i < kNumRefusalReasons; ++i) {
    num_refused += sources.server->num_refusals(static_cast<RefusalReason>(i));
  }
  uint64_t num_finished = 0;
  for (const Counter& counter : engine.finished) num_finished += counter.value();
  return {{"steps", sources.status.num_steps},
          {"prompt_tokens", engine.prompt_tokens.value()},
          {"generated_tokens", engine.generated_tokens.value()},
          {"prefix_queried_tokens", scheduler.blocks.prefix_queried_tokens},
          {"prefix_hit_tokens", scheduler.blocks.prefix_hit_tokens},
          {"preemptions", scheduler.num_preemptions},
          {"finished", num_finished},
          {"refused", num_refused},
          {"ended_requests", num_ended}};
}

Json OfHistogram(const Histogram& histogram) {
  HistogramValues values = histogram.Read();
  return {{"bounds", std::move(values.bounds)}, {"counts", std::move(values.counts)}};
}

Json OfMemory(const MetricSources& sources) {
  const MemoryLedger& memory = *sources.memory;
  Json uses = Json::array();
  for (const auto& [what, bytes] : memory.entries) {
    uses.push_back({{"use", what}, {"bytes", bytes}});
  }
  return {{"resident_bytes", ResidentBytes()},
          {"device_bytes", memory.total_bytes},
          {"device_free_bytes", memory.free_bytes},
          {"uses", std::move(uses)}};
}

Json OfRequest(const RecentRequests::Request& request) {
  const AccessEntry& entry = request.entry;
  Json json = {{"number", request.number},
               {"end_seconds", absl::ToUnixMillis(request.end) * 1e-3},
               {"id", entry.request_id},
               {"principal", entry.principal},
               {"surface", SurfaceOf(entry.method)},
               {"model", entry.model},
               {"status", absl::StatusCodeToString(entry.status)},
               {"finish_reason", entry.finish_reason},
               {"total_ms", entry.total_ms}};
  const auto add = [&json](const char* name, const auto& value) {
    if (value.has_value()) json[name] = *value;
  };
  add("prompt_tokens", entry.prompt_tokens);
  add("cached_tokens", entry.cached_tokens);
  add("generated_tokens", entry.generated_tokens);
  add("queue_ms", entry.queue_ms);
  if (entry.queue_ms.has_value() && entry.prefill_ms.has_value()) {
    json["first_token_ms"] = *entry.queue_ms + *entry.prefill_ms;
  }
  return json;
}

}  // namespace

std::string RenderStatus(const MetricSources& sources, uint64_t num_ended) {
  const absl::Time now = MonotonicNow();
  return ToText({{"version", kVersion},
                 {"state", StateOf(sources.status)},
                 {"start_seconds", absl::ToUnixMillis(sources.start_time) * 1e-3},
                 {"now_seconds", absl::ToUnixMillis(now) * 1e-3},
                 {"model", OfModel(sources)},
                 {"load", OfLoad(sources)},
                 {"kv_cache", OfCache(sources)},
                 {"recurrent_states", OfStates(sources)},
                 {"memory", OfMemory(sources)},
                 {"counters", OfCounters(sources, num_ended)},
                 {"time_to_first_token_seconds", OfHistogram(sources.engine->time_to_first_token)},
                 {"inter_token_seconds", OfHistogram(sources.engine->inter_token_latency)}});
}

std::string RenderRecentRequests(const std::vector<RecentRequests::Request>& requests) {
  Json list = Json::array();
  for (const RecentRequests::Request& request : requests) list.push_back(OfRequest(request));
  return ToText({{"requests", std::move(list)}});
}

}  // namespace quire

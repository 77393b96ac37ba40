#include "server/observe/metrics/render_metrics.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/types.h"
#include "server/base/version.h"
#include "server/observe/metrics/process_metrics.h"

namespace quire {

namespace {

constexpr auto kCounter = MetricType::kCounter;
constexpr auto kGauge = MetricType::kGauge;
constexpr auto kHistogram = MetricType::kHistogram;

double Share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

double Number(auto value) { return static_cast<double>(value); }

// Gauges of this moment.
void RenderLoad(const MetricSources& sources, MetricText& text) {
  const SchedulerStats& scheduler = sources.status.scheduler;
  const BlockStats& blocks = scheduler.blocks;
  text.AddGauge("vllm:num_requests_running", "Number of requests in model execution batches.",
                Number(scheduler.num_running));
  text.AddGauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.",
                Number(scheduler.num_waiting));
  text.Begin("vllm:num_requests_waiting_by_reason", kGauge,
             "Number of requests waiting, by what they wait for.");
  text.Add(Number(scheduler.num_waiting), {{"reason", "capacity"}});
  text.Add(0, {{"reason", "deferred"}});
  const double usage = Share(blocks.num_held, blocks.num_blocks);
  text.AddGauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", usage);
  text.AddGauge("vllm:gpu_cache_usage_perc", "The older name of vllm:kv_cache_usage_perc.", usage);
  text.AddGauge("quire_requests_paused", "Running sequences whose reader is slow.",
                Number(scheduler.num_paused));
  text.AddGauge("quire_waiting_prompt_tokens", "Prompt tokens of the sequences that wait.",
                Number(scheduler.num_waiting_tokens));
  text.AddGauge("quire_flows", "Principals that have something in the engine, or had lately.",
                Number(scheduler.num_flows));
  text.Begin("quire_kv_blocks", kGauge, "Blocks of the KV cache, by state.");
  text.Add(Number(blocks.num_held), {{"state", "held"}});
  text.Add(Number(blocks.num_cached_free), {{"state", "cached"}});
  text.Add(Number(blocks.num_blocks - blocks.num_held - blocks.num_cached_free),
           {{"state", "free"}});
  text.AddGauge("quire_admitting", "1 while new requests are taken.",
                sources.status.admitting ? 1 : 0);
  text.AddGauge("quire_engine_failed", "1 once the engine has failed.",
                sources.status.failed ? 1 : 0);
}

// All are 0 where no layer keeps a state.
void RenderStates(const MetricSources& sources, MetricText& text) {
  const BlockStats& blocks = sources.status.scheduler.blocks;
  const StateStats& states = blocks.states;
  const std::pair<const char*, int64_t> slots[] = {// NOLINT(*-avoid-c-arrays)
                                                   {"live", states.num_live},
                                                   {"snapshot", states.num_snapshots},
                                                   {"free", states.num_free}};
  text.Begin("quire_state_slots", kGauge,
             "Slots of recurrent states: of running sequences, of snapshots, free ones.");
  for (const auto& [state, number] : slots) text.Add(Number(number), {{"state", state}});
  text.Begin("quire_state_bytes", kGauge, "The same in bytes.");
  for (const auto& [state, number] : slots) {
    text.Add(Number(number * sources.model->state_bytes), {{"state", state}});
  }
  text.AddCounter("quire_state_snapshots_total",
                  "Snapshots of recurrent states that later prompts could begin from.",
                  Number(states.num_made));
  text.AddCounter("quire_state_snapshot_evictions_total",
                  "Those of them whose slot was needed for something else.",
                  Number(states.num_evicted));
  text.AddCounter("quire_state_hits_total", "Sequences that began from a snapshot.",
                  Number(states.num_hits));
  text.AddCounter("quire_state_refused_total",
                  "Snapshots that were not made, or not begun from, for want of a slot.",
                  Number(states.num_refused));
  text.AddCounter("quire_state_recomputed_tokens_total",
                  "Prompt tokens that were computed although their blocks were cached, as there "
                  "was no snapshot behind them.",
                  Number(blocks.num_recomputed_tokens));
}

void RenderCacheConfig(const MetricSources& sources, MetricText& text) {
  const ModelInfo& model = *sources.model;
  text.Begin("vllm:cache_config_info", kGauge, "Information of the LLMEngine CacheConfig");
  text.AddPlain(1, {{"engine", "0"},
                    {"block_size", absl::StrCat(model.block_size)},
                    {"num_gpu_blocks", absl::StrCat(model.num_kv_blocks)},
                    {"cache_dtype", DTypeName(model.kv_cache_dtype)},
                    {"enable_prefix_caching", sources.has_prefix_cache ? "True" : "False"}});
}

void RenderTokens(const MetricSources& sources, MetricText& text) {
  const EngineMetrics& engine = *sources.engine;
  const SchedulerStats& scheduler = sources.status.scheduler;
  const BlockStats& blocks = scheduler.blocks;
  const uint64_t cached = engine.cached_prompt_tokens.value();
  const uint64_t prompt = engine.prompt_tokens.value();
  text.AddCounter("vllm:prompt_tokens_total", "Number of prefill tokens processed.",
                  Number(prompt));
  text.AddCounter("vllm:prompt_tokens_cached_total", "Number of cached prompt tokens.",
                  Number(cached));
  text.Begin("vllm:prompt_tokens_by_source_total", kCounter, "Number of prompt tokens by source.");
  text.Add(Number(prompt - std::min(cached, prompt)), {{"source", "local_compute"}});
  text.Add(Number(cached), {{"source", "local_cache_hit"}});
  text.Add(0, {{"source", "external_kv_transfer"}});
  text.AddCounter("vllm:generation_tokens_total", "Number of generation tokens processed.",
                  Number(engine.generated_tokens.value()));
  text.AddCounter("vllm:prefix_cache_queries_total",
                  "Prefix cache queries, in terms of number of queried tokens.",
                  Number(blocks.prefix_queried_tokens));
  text.AddCounter("vllm:prefix_cache_hits_total",
                  "Prefix cache hits, in terms of number of cached tokens.",
                  Number(blocks.prefix_hit_tokens));
  text.AddCounter("vllm:num_preemptions_total", "Cumulative number of preemption from the engine.",
                  Number(scheduler.num_preemptions));
  text.AddCounter("quire_computed_prompt_tokens_total",
                  "Prompt tokens that the device computed, again after a preemption.",
                  Number(sources.status.num_prompt_tokens));
  text.AddCounter("quire_kv_block_evictions_total",
                  "Cached blocks that were reused for other contents.",
                  Number(blocks.num_evictions));
}

// With the traces of requests that were recorded.
void RenderRequestTime(const MetricSources& sources, RequestTime which, absl::string_view name,
                       absl::string_view help, MetricText& text) {
  text.AddHistogramOf(
      name, help, HistogramOf(which, *sources.engine),
      sources.exemplars != nullptr ? sources.exemplars->Of(which) : std::vector<Exemplar>());
}

void RenderTimes(const MetricSources& sources, MetricText& text) {
  const EngineMetrics& engine = *sources.engine;
  RenderRequestTime(sources, RequestTime::kTimeToFirstToken, "vllm:time_to_first_token_seconds",
                    "Histogram of time to first token in seconds.", text);
  text.AddHistogramOf("vllm:inter_token_latency_seconds",
                      "Histogram of inter-token latency in seconds.", engine.inter_token_latency);
  text.AddHistogramOf("vllm:time_per_output_token_seconds",
                      "The older name of vllm:inter_token_latency_seconds.",
                      engine.inter_token_latency);
  text.AddHistogramOf("vllm:request_time_per_output_token_seconds",
                      "Histogram of time_per_output_token_seconds per request.",
                      engine.time_per_output_token);
  RenderRequestTime(sources, RequestTime::kE2eLatency, "vllm:e2e_request_latency_seconds",
                    "Histogram of e2e request latency in seconds.", text);
  RenderRequestTime(sources, RequestTime::kQueue, "vllm:request_queue_time_seconds",
                    "Histogram of time spent in WAITING phase for request.", text);
  RenderRequestTime(sources, RequestTime::kInference, "vllm:request_inference_time_seconds",
                    "Histogram of time spent in RUNNING phase for request.", text);
  RenderRequestTime(sources, RequestTime::kPrefill, "vllm:request_prefill_time_seconds",
                    "Histogram of time spent in PREFILL phase for request.", text);
  RenderRequestTime(sources, RequestTime::kDecode, "vllm:request_decode_time_seconds",
                    "Histogram of time spent in DECODE phase for request.", text);
}

void RenderRequests(const EngineMetrics& engine, MetricText& text) {
  text.Begin("vllm:request_success_total", kCounter, "Count of successfully processed requests.");
  constexpr std::pair<FinishReason, const char*> kReasons[] = {// NOLINT(*-avoid-c-arrays)
                                                               {FinishReason::kStop, "stop"},
                                                               {FinishReason::kLength, "length"},
                                                               {FinishReason::kAbort, "abort"},
                                                               {FinishReason::kError, "error"}};
  for (const auto& [reason, name] : kReasons) {
    text.Add(Number(engine.finished[static_cast<size_t>(reason)].value()),
             {{"finished_reason", name}});
  }
  text.AddCounter("quire_broken_logits_total",
                  "Requests that ended because the model's logits were no numbers (NaN).",
                  Number(engine.broken_logits.value()));
  text.AddHistogramOf("vllm:request_prompt_tokens", "Number of prefill tokens processed.",
                      engine.request_prompt_tokens);
  text.AddHistogramOf("vllm:request_generation_tokens", "Number of generation tokens processed.",
                      engine.request_generated_tokens);
  text.AddHistogramOf("vllm:request_max_num_generation_tokens",
                      "Histogram of maximum number of requested generation tokens.",
                      engine.request_longest);
  text.AddHistogramOf("vllm:request_params_max_tokens",
                      "Histogram of the max_tokens request parameter.", engine.request_max_tokens);
  text.AddHistogramOf("vllm:request_params_n", "Histogram of the n request parameter.",
                      engine.request_n);
}

void RenderSteps(const EngineMetrics& engine, MetricText& text) {
  text.AddHistogramOf("vllm:iteration_tokens_total",
                      "Histogram of number of tokens per engine_step.", engine.step_tokens);
  text.AddHistogramOf("quire_step_sequences", "Sequences in a step.", engine.step_sequences);
  text.Begin("quire_step_seconds", kHistogram,
             "How long a step keeps the device, by what it runs.");
  text.AddHistogram(engine.step_seconds[0].Read(), {{"kind", "decode"}});
  text.AddHistogram(engine.step_seconds[1].Read(), {{"kind", "prompt"}});
  text.AddHistogram(engine.step_seconds[2].Read(), {{"kind", "mixed"}});
}

void RenderExperts(const ExpertTokens& experts, MetricText& text) {
  if (experts.num_experts().empty()) return;
  text.Begin("quire_expert_tokens_total", kCounter, "Tokens that have chosen an expert.");
  for (size_t layer = 0; layer < experts.num_experts().size(); ++layer) {
    for (int32_t expert = 0; expert < experts.num_experts()[layer]; ++expert) {
      text.Add(Number(experts.Of(layer, expert)),
               {{"layer", absl::StrCat(layer)}, {"expert", absl::StrCat(expert)}});
    }
  }
}

void RenderCalls(const MetricSources& sources, MetricText& text) {
  const ServerMetrics& server = *sources.server;
  text.Begin("quire_requests_refused_total", kCounter,
             "Generate requests that the engine never had, by reason.");
  for (int i = 0; i < kNumRefusalReasons; ++i) {
    const auto reason = static_cast<RefusalReason>(i);
    text.Add(Number(server.num_refusals(reason)), {{"reason", RefusalName(reason)}});
  }
  text.Begin("grpc_server_handled_total", kCounter, "gRPC calls that have ended, by status.");
  for (const auto& call : server.grpc_calls()) {
    text.AddPlain(Number(call.count), {{"grpc_service", call.service},
                                       {"grpc_method", call.method},
                                       {"grpc_code", absl::StatusCodeToString(call.code)}});
  }
  text.Begin("http_requests_total", kCounter, "HTTP requests that have ended, by status.");
  for (const auto& call : server.http_calls()) {
    text.AddPlain(Number(call.count),
                  {{"handler", call.handler}, {"method", call.method}, {"status", call.status}});
  }
}

void RenderSpans(const ServerMetrics& server, MetricText& text) {
  text.AddCounter("quire_trace_spans_exported_total", "Spans that the collector has taken.",
                  Number(server.num_spans(SpanOutcome::kExported)));
  text.Begin("quire_trace_spans_dropped_total", kCounter,
             "Spans that the collector never had, by reason.");
  text.Add(Number(server.num_spans(SpanOutcome::kQueueFull)), {{"reason", "queue_full"}});
  text.Add(Number(server.num_spans(SpanOutcome::kExportFailed)), {{"reason", "export_failed"}});
}

void RenderServer(const MetricSources& sources, MetricText& text) {
  const ModelInfo& model = *sources.model;
  text.Begin("quire_info", kGauge, "What runs here; always 1.");
  text.Add(1, {{"version", kVersion},
               {"architecture", model.config.architecture},
               {"device", model.device_name},
               {"dtype", DTypeName(model.dtype)},
               {"kv_cache_dtype", DTypeName(model.kv_cache_dtype)},
               {"max_model_len", absl::StrCat(model.max_model_len)}});
  text.Begin("quire_principal_requests", kGauge, "Unfinished requests, by principal.");
  for (const PrincipalLoad& load : sources.principals) {
    text.Add(Number(load.num_requests), {{"principal", load.name}});
  }
  text.Begin("quire_principal_requests_waiting", kGauge,
             "Continuations in the engine's queue, by principal.");
  for (const PrincipalLoad& load : sources.principals) {
    text.Add(Number(load.num_waiting), {{"principal", load.name}});
  }
  text.AddGauge("quire_connections", "Open connections of the port.",
                Number(sources.num_connections));
  text.AddGauge("quire_client_held_bytes", "Bytes that clients make the server hold.",
                Number(sources.num_held_bytes));
  const MemoryLedger& memory = *sources.memory;
  text.Begin("quire_device_memory_bytes", kGauge,
             "Where the device's memory went at start, by use.");
  text.Add(Number(memory.total_bytes - memory.available_bytes), {{"use", "in use before"}});
  for (const auto& [what, bytes] : memory.entries) text.Add(Number(bytes), {{"use", what}});
  text.Add(Number(memory.free_bytes), {{"use", "free"}});
}

}  // namespace

std::string RenderMetrics(const MetricSources& sources, MetricFormat format) {
  MetricText text(format, {{"model_name", sources.model_name}, {"engine", "0"}});
  RenderLoad(sources, text);
  RenderCacheConfig(sources, text);
  RenderTokens(sources, text);
  RenderStates(sources, text);
  RenderTimes(sources, text);
  RenderRequests(*sources.engine, text);
  RenderSteps(*sources.engine, text);
  RenderExperts(sources.engine->expert_tokens, text);
  RenderCalls(sources, text);
  RenderSpans(*sources.server, text);
  RenderServer(sources, text);
  AddProcessMetrics(sources.start_time, &text);
  return text.Finish();
}

}  // namespace quire

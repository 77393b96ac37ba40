#include "server/start/server.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <future>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/checkpoint/model_folder.h"
#include "engine/engine.h"
#include "engine/json/model_file.h"
#include "engine/model/config/rope_table.h"
#include "engine/request_check.h"
#include "kernels/backend.h"
#include "kernels/base/clock.h"
#include "kernels/base/progress.h"
#include "kernels/base/status_macros.h"
#include "kernels/host_limits.h"
#include "server/call/grpc_protocol.h"
#include "server/call/http_server.h"
#include "server/grammar/constraint/constraint_compiler.h"
#include "server/observe/kv_events/zmq_publisher.h"
#include "server/observe/log/access_log.h"
#include "server/observe/log/recent_requests.h"
#include "server/observe/metrics/server_metrics.h"
#include "server/request/generate/generate_handler.h"
#include "server/request/generate/prompt_encoder.h"
#include "server/request/generate/work_pool.h"
#include "server/request/limits.h"
#include "server/request/output/output_pump.h"
#include "server/start/security.h"
#include "server/start/settings/engine_settings.h"
#include "server/surfaces/anthropic/messages_routes.h"
#include "server/surfaces/grpc/grpc_server.h"
#include "server/surfaces/openai/model_routes.h"
#include "server/surfaces/openai/openai_routes.h"
#include "server/surfaces/responses/responses_routes.h"
#include "server/surfaces/vllm/vllm_engine_service.h"
#include "server/surfaces/vllm/vllm_inference_service.h"
#include "server/surfaces/web/health_routes.h"
#include "server/surfaces/web/metrics_route.h"
#include "server/surfaces/web/page_route.h"
#include "server/surfaces/web/status_routes.h"
#include "server/text/answer/model_answers.h"
#include "server/trace/trace_exporter.h"
#include "server/wire/http1/http1_connection.h"
#include "server/wire/http2/http2_connection.h"
#include "server/wire/transport/acceptor.h"
#include "server/wire/transport/connection_pool.h"

namespace quire {

namespace {

constexpr int kNumWorkers = 2;
// How long clients may take to read what has been ended already.
constexpr absl::Duration kLastDelivery = absl::Seconds(1);
// How long they may take to hear that the server ends, and to close.
constexpr absl::Duration kGoodbye = absl::Milliseconds(500);

class EngineCanceller final : public SequenceCanceller {
 public:
  void Attach(Engine* engine) { engine_ = engine; }  // before the first request
  void Cancel(RequestId request) override { engine_->Cancel(request); }
  void StopSequence(const SequenceKey& key) override {
    engine_->CancelSequence(key, FinishReason::kStop);
  }

 private:
  Engine* engine_ = nullptr;
};

// Errors of the model's files that show without the device, the weights or much time.
absl::Status CheckModelFolder(const Settings& settings, const std::string& folder) {
  RETURN_IF_ERROR(LoadModelConfig(folder).status());
  if (settings.skip_tokenizer_init) return absl::OkStatus();
  if (!absl::IsNotFound(RealModelPath(folder, "tokenizer.json").status())) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat(folder, " ", ExplainMissingTokenizer(FileNames(folder), folder)));
}

// Every token that ends an answer: those of config.json, of generation_config.json and of the
// tokenizer's files.
absl::StatusOr<std::vector<TokenId>> EndTokens(const ModelInfo& info, const Tokenizer& tokenizer) {
  std::set<TokenId> ids(info.config.eos_token_ids.begin(), info.config.eos_token_ids.end());
  ids.insert(info.generation.eos_token_ids.begin(), info.generation.eos_token_ids.end());
  if (tokenizer.eos_id().has_value()) ids.insert(*tokenizer.eos_id());
  while (!ids.empty() && *ids.rbegin() >= info.config.vocab_size) {
    spdlog::warn("the end token {} is left out: the model has {} tokens, so that it never comes",
                 *ids.rbegin(), info.config.vocab_size);
    ids.erase(std::prev(ids.end()));
  }
  if (static_cast<int64_t>(ids.size()) > kMaxStopTokenIds) {
    return absl::InvalidArgumentError(
        absl::StrCat("config.json and generation_config.json: eos_token_id lists ", ids.size(),
                     " tokens; at most ", kMaxStopTokenIds, " end an answer"));
  }
  return std::vector<TokenId>(ids.begin(), ids.end());
}

// Warns of what works, but not as somebody may expect who knows the model from elsewhere.
void SayWhatMaySurprise(const Settings& settings, const ModelInfo& info,
                        const PromptEncoder& encoder) {
  if (!settings.skip_tokenizer_init && !encoder.has_chat_template()) {
    spdlog::warn(
        "the model has no chat template, so that chats are refused and prompts alone are served: "
        "add chat_template.jinja to its folder, or name one with --chat-template FILE");
  }
  if (settings.generation_config == "auto" && !info.generation.unused_keys.empty()) {
    spdlog::warn("generation_config.json: {} have no effect here",
                 absl::StrJoin(info.generation.unused_keys, ", "));
  }
  const std::string stretch = RopeStretchNote(info.config.ropes.front(), info.max_model_len);
  if (!stretch.empty()) spdlog::warn("{}", stretch);
}

ModelFacts MakeFacts(const Settings& settings, const std::string& model_folder,
                     const ModelInfo& info, std::vector<TokenId> eos_token_ids) {
  ModelFacts facts;
  facts.path = !settings.model.empty() ? settings.model : model_folder;
  facts.folder = model_folder;
  facts.served_names = settings.served_model_name;
  if (facts.served_names.empty()) {
    facts.served_names = {!settings.model.empty()
                              ? settings.model
                              : model_folder.substr(model_folder.find_last_of('/') + 1)};
  }
  facts.vocab_size = info.config.vocab_size;
  facts.max_model_len = info.max_model_len;
  facts.has_tokenizer = !settings.skip_tokenizer_init;
  if (settings.generation_config == "auto") facts.defaults = info.generation;
  facts.eos_token_ids = std::move(eos_token_ids);
  return facts;
}

absl::StatusOr<std::unique_ptr<PromptEncoder>> LoadEncoder(const Settings& settings,
                                                           const std::string& model_folder,
                                                           std::optional<ChatTemplateSet> given) {
  if (settings.skip_tokenizer_init) return PromptEncoder::WithoutTokenizer();
  return PromptEncoder::Load(model_folder, std::move(given));
}

// The role that may read /metrics and /status. Nothing means everybody who may ask for the server's
// health.
std::optional<Role> MetricsRole(const Settings& settings) {
  if (settings.metrics_access == "anyone") return std::nullopt;
  return settings.metrics_access == "admin" ? Role::kAdmin : Role::kInference;
}

// Raises the soft limit of open files to the hard one; returns how many connections then fit.
int64_t MaxConnections(int64_t wanted) {
  constexpr int64_t kReservedFiles = 64;
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  const auto files = static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, 1 << 30));
  return std::clamp<int64_t>(files - kReservedFiles, 1, wanted);
}

// Threads that move bytes: one serves a GPU's worth of streams, a second keeps a flood on some
// connections from the others.
int NumLoops() { return std::clamp(NumUsableCpus() / 4, 2, 4); }

}  // namespace

// In the order of construction; destroyed from the end: no calls come in, then the engine is gone,
// then the output thread, then the connections' loops, to which it posts.
struct Server::Parts {
  explicit Parts(absl::Duration stall_timeout) : pump(&canceller, stall_timeout) {}

  absl::Status StartTraces(const Settings& settings);
  absl::Status StartConnections(int64_t max_connections, const Security& security);
  absl::StatusOr<std::vector<HttpRoute>> Routes(const ServingContext& context,
                                                const Settings& settings) const;

  absl::Time start_time = MonotonicNow();
  std::string address;
  ModelFacts facts;
  std::unique_ptr<PromptEncoder> encoder;
  std::unique_ptr<ModelAnswers> answers;
  StartClock stages;
  EngineCanceller canceller;
  RequestRegistry registry;
  ServerMetrics metrics;
  RecentRequests recent_requests;
  std::unique_ptr<AccessLog> access_log;  // null: --no-access-log
  std::unique_ptr<GrpcServer> grpc;
  std::unique_ptr<HttpServer> http;
  const Http1Limits http1_limits;
  // gRPC has methods of its own; everything else on the port has paths.
  const StartExchange start_call = [this](RequestHead head, HttpStream* stream) {
    const bool is_grpc = IsGrpcContentType(head.Find("content-type"));
    if (is_grpc) return grpc->Start(head, stream);
    return http->Start(std::move(head), stream);
  };
  // gRPC needs HTTP/2.
  const StartExchange start_http1 = [this](RequestHead head, HttpStream* stream) {
    return http->Start(std::move(head), stream);
  };
  std::unique_ptr<ConnectionPool> connections;
  // Null without --otlp-traces-endpoint. After the pump it has all that it will ever get.
  std::unique_ptr<Exemplars> exemplars;
  std::unique_ptr<TraceExporter> exporter;
  OutputPump pump;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<ZmqPublisher> kv_events;  // null: not published
  std::unique_ptr<GenerateHandler> generate;
  std::unique_ptr<ConstraintCompiler> constraints;
  std::unique_ptr<WorkPool> work_pool;
  std::unique_ptr<Acceptor> acceptor;
};

absl::Status Server::Parts::StartTraces(const Settings& settings) {
  if (settings.otlp_traces_endpoint.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const OtlpOptions options, ReadOtlpOptions(settings.otlp_traces_endpoint,
                                                              settings.otlp_traces_sample_ratio));
  exemplars = std::make_unique<Exemplars>(engine->metrics());
  exporter = std::make_unique<TraceExporter>(options, &metrics, exemplars.get());
  return absl::OkStatus();
}

// Every path that is served: another page is another list here.
absl::StatusOr<std::vector<HttpRoute>> Server::Parts::Routes(const ServingContext& context,
                                                             const Settings& settings) const {
  std::vector<HttpRoute> routes;
  for (std::vector<HttpRoute>& more :
       std::vector{HealthRoutes(context), ModelRoutes(context), OpenAiRoutes(context),
                   ResponsesRoutes(context), MessagesRoutes(context)}) {
    std::move(more.begin(), more.end(), std::back_inserter(routes));
  }
  const auto load = [this] {
    return ConnectionLoad{connections->num_connections(), connections->held_bytes()};
  };
  routes.push_back(MetricsRoute(context, MetricsRole(settings), load));
  routes.push_back(StatusRoute(context, MetricsRole(settings), load));
  routes.push_back(RecentRequestsRoute(context));
  routes.push_back(PageRoute());
  if (settings.enable_tokenizer_info_endpoint) {
    ASSIGN_OR_RETURN(routes.emplace_back(), TokenizerInfoRoute(context));
  }
  return routes;
}

absl::Status Server::Parts::StartConnections(int64_t max_connections, const Security& security) {
  ConnectionPoolOptions options;
  options.num_loops = NumLoops();
  options.max_connections = max_connections;
  options.max_connections_per_peer = std::max<int64_t>(1, max_connections / 2);
  options.tls = security.tls();
  options.takes_plaintext = [&security](const PeerAddress& peer) {
    return security.TakesPlaintext(peer);
  };
  auto make_handler = [this](Protocol protocol,
                             ConnectionControl* control) -> std::unique_ptr<ConnectionHandler> {
    if (protocol != Protocol::kHttp2) {
      return std::make_unique<Http1Connection>(control, http1_limits, start_http1);
    }
    return std::make_unique<Http2Connection>(control, Http2Limits(), start_call);
  };
  ASSIGN_OR_RETURN(connections, ConnectionPool::Start(options, std::move(make_handler)));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const Settings& settings, const std::string& model_folder, Listener listener,
    const BackendOpener& open_backend, Progress* progress, const Security& security,
    std::function<void(const absl::Status&)> on_engine_failure) {
  RETURN_IF_ERROR(CheckModelFolder(settings, model_folder));
  auto parts = std::make_unique<Parts>(absl::Seconds(settings.stream_stall_timeout));
  std::optional<ChatTemplateSet> chat_template;
  if (!settings.chat_template.empty()) {  // here, because reading the weights takes much longer
    ASSIGN_OR_RETURN(chat_template, LoadChatTemplateFile(settings.chat_template));
  }
  auto encoder = std::async(std::launch::async, [&] {
    return LoadEncoder(settings, model_folder, std::move(chat_template));
  });
  EngineConfig config = ToEngineConfig(settings, model_folder);
  config.progress = progress;
  ASSIGN_OR_RETURN(Cors cors, Cors::Parse(settings.allowed_origins));
  ASSIGN_OR_RETURN(const KvEventsConfig kv_events, ParseKvEventsConfig(settings.kv_events_config));
  config.kv_event_limits.max_batches = static_cast<size_t>(kv_events.buffer_steps);
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, open_backend(config.backend_options()));
  parts->stages.End("device");
  ASSIGN_OR_RETURN(parts->engine, Engine::Open(config, std::move(backend)));
  parts->stages.End(parts->engine->start_stages());
  RETURN_IF_ERROR(parts->StartTraces(settings));
  if (kv_events.enabled) {
    ASSIGN_OR_RETURN(parts->kv_events, ZmqPublisher::Start(kv_events, parts->engine.get()));
  }
  ASSIGN_OR_RETURN(parts->encoder, encoder.get());
  parts->answers = std::make_unique<ModelAnswers>(
      settings.tool_call_parser, settings.reasoning_parser, parts->encoder->tokenizer(),
      parts->encoder->chat_template_sources());
  parts->stages.End("tokenizer");
  const ModelInfo& info = parts->engine->model_info();
  ASSIGN_OR_RETURN(std::vector<TokenId> eos_ids, EndTokens(info, *parts->encoder->tokenizer()));
  parts->facts = MakeFacts(settings, model_folder, info, std::move(eos_ids));
  SayWhatMaySurprise(settings, info, *parts->encoder);
  if (settings.access_log) {
    parts->access_log = std::make_unique<AccessLog>(
        settings.log_format == "json" ? LogFormat::kJson : LogFormat::kText);
  }
  parts->canceller.Attach(parts->engine.get());
  parts->work_pool = std::make_unique<WorkPool>(kNumWorkers, kMaxQueuedWork, kMaxQueuedWorkBytes);
  parts->constraints =
      std::make_unique<ConstraintCompiler>(parts->encoder->tokenizer(), parts->facts.eos_token_ids);
  parts->generate = std::make_unique<GenerateHandler>(GenerateHandler::Parts{
      parts->engine.get(), &parts->pump, &parts->registry, parts->encoder.get(),
      parts->answers.get(), parts->constraints.get(), parts->work_pool.get(), &parts->facts,
      settings.seed < 0 ? std::nullopt : std::optional(settings.seed), &parts->metrics,
      parts->exporter.get()});
  const ServingContext context = {
      parts->engine.get(),    parts->generate.get(),  &parts->registry,
      parts->work_pool.get(), parts->encoder.get(),   &parts->facts,
      parts->start_time,      &security.gate(),       parts->access_log.get(),
      &parts->metrics,        parts->exemplars.get(), settings.enable_prefix_caching,
      parts->answers.get(),   &parts->recent_requests};
  parts->grpc = std::make_unique<GrpcServer>(
      context, std::vector<GrpcService>{InferenceService(context), AdminService(context),
                                        VllmEngineService(context), VllmInferenceService(context),
                                        VllmControlService(context)});
  ASSIGN_OR_RETURN(std::vector<HttpRoute> routes, parts->Routes(context, settings));
  parts->http = std::make_unique<HttpServer>(
      &security.gate(), std::move(cors), std::move(routes), parts->access_log.get(),
      &parts->metrics, &parts->recent_requests, absl::Seconds(settings.sse_ping_interval));
  parts->engine->SetFailureCallback(std::move(on_engine_failure));

  RETURN_IF_ERROR(listener.Listen());
  parts->address = listener.address();
  RETURN_IF_ERROR(parts->StartConnections(MaxConnections(settings.max_connections), security));
  parts->grpc->SetServing(true);
  ASSIGN_OR_RETURN(parts->acceptor, Acceptor::Start(std::move(listener), parts->connections.get()));
  parts->stages.End("port");
  return std::unique_ptr<Server>(new Server(std::move(parts)));
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Server::~Server() {
  EndStreams(absl::UnavailableError("the server is shutting down"));
  FinishCalls(MonotonicNow() + kLastDelivery);
}

void Server::BeginDrain() {
  // This comes first, so that a client that hears NOT_SERVING is refused from then on.
  parts_->engine->StopAdmitting();
  parts_->grpc->SetServing(false);
  parts_->work_pool->Close();
}

bool Server::WaitUntilDrained(absl::Time deadline) {
  return parts_->registry.WaitUntilEmpty(deadline);
}

void Server::SetDead() { parts_->grpc->SetDead(); }

void Server::EndStreams(const absl::Status& status) { parts_->pump.EndAll(status); }

void Server::FinishCalls(absl::Time deadline) {
  if (parts_->connections == nullptr) return;
  parts_->engine->kv_event_log().Close();
  parts_->grpc->FinishCalls(deadline);
  parts_->http->FinishCalls(deadline);
  parts_->connections->BeginShutdown();
  parts_->acceptor.reset();
  parts_->connections->WaitUntilEmpty(std::max(deadline, MonotonicNow() + kGoodbye));
  parts_->connections->Stop();
}

const StartStages& Server::start_stages() const { return parts_->stages.stages(); }

std::string Server::Describe() const {
  const ModelInfo& info = parts_->engine->model_info();
  return absl::StrCat(parts_->address, ", model \"", parts_->facts.served_names.front(), "\" (",
                      info.config.architecture, ", ", info.num_parameters, " parameters, ",
                      DTypeName(info.dtype), ") on ", info.device_name, ", context ",
                      info.max_model_len, " tokens, ", info.num_kv_blocks, " blocks of ",
                      info.block_size);
}

const MemoryLedger& Server::memory_ledger() const { return parts_->engine->memory_ledger(); }

}  // namespace quire

#include "tools/bench/engine/engine_run.h"

#include <chrono>
#include <deque>
#include <limits>
#include <optional>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "kernels/base/clock.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/base/exit_code.h"
#include "server/start/model_location.h"
#include "server/start/settings/engine_settings.h"
#include "server/start/settings/settings.h"
#include "tools/bench/command_line.h"
#include "tools/bench/engine/model_shapes.h"
#include "tools/bench/failure.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/run_header.h"
#include "tools/bench/shown_progress.h"

namespace quire::bench {

namespace {

// Hands streams with news from the engine's thread to the benchmark's.
class Ready : public OutputListener {
 public:
  void OnOutput(const std::shared_ptr<OutputStream>& stream) override {
    absl::MutexLock lock(&mutex_);
    streams_.push_back(stream);
    news_.Signal();
  }

  // Null when there is no news for a while.
  std::shared_ptr<OutputStream> Take() {
    constexpr absl::Duration kPatience = absl::Milliseconds(100);  // then look for a signal
    absl::MutexLock lock(&mutex_);
    const auto has_news = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !streams_.empty(); };
    if (!news_.Await(&mutex_, MonotonicNow() + kPatience, has_news)) return nullptr;
    std::shared_ptr<OutputStream> stream = std::move(streams_.front());
    streams_.pop_front();
    return stream;
  }

 private:
  absl::Mutex mutex_;
  MonotonicCondVar news_;
  std::deque<std::shared_ptr<OutputStream>> streams_ ABSL_GUARDED_BY(mutex_);
};

Request MakeRequest(const WorkItem& item, const SamplingFlags& sampling, uint64_t seed,
                    const ModelInfo& model) {
  Request request;
  request.prompt = item.prompt;
  request.sampling.temperature = sampling.temperature;
  request.sampling.top_p = sampling.top_p;
  request.sampling.top_k = sampling.top_k;
  request.sampling.min_p = sampling.min_p;
  request.sampling.repetition_penalty = sampling.repetition_penalty;
  request.sampling.presence_penalty = sampling.presence_penalty;
  request.sampling.frequency_penalty = sampling.frequency_penalty;
  request.sampling.seed = seed;
  request.stop.max_tokens = item.output_len;
  if (!sampling.ignore_eos) {
    request.stop.eos_token_ids = model.config.eos_token_ids;
    request.stop.eos_token_ids.insert(request.stop.eos_token_ids.end(),
                                      model.generation.eos_token_ids.begin(),
                                      model.generation.eos_token_ids.end());
  }
  return request;
}

// The requests of one call of RunItems.
class Batch {
 public:
  Batch(Engine& engine, const std::vector<WorkItem>& items, const RunOptions& options)
      : engine_(engine),
        items_(items),
        options_(options),
        stage_(options.progress, "requests", static_cast<int64_t>(items.size()),
               ProgressUnit::kItems),
        submitted_(items.size()),
        records_(items.size()) {}

  absl::Status Submit(Ready* ready) {
    for (size_t i = 0; i < items_.size() && !Interrupted(); ++i) {
      RequestRecord& record = records_[i];
      record.outcome = Outcome::kInterrupted;  // until it finishes
      record.prompt_tokens = static_cast<int64_t>(items_[i].prompt.size());
      record.is_counted = true;
      submitted_[i] = MonotonicNow();
      ASSIGN_OR_RETURN(const auto stream,
                       engine_.Submit(MakeRequest(items_[i], options_.sampling, options_.seed + i,
                                                  engine_.model_info()),
                                      ready));
      index_[stream->request_id()] = i;
    }
    num_unfinished_ = index_.size();
    return absl::OkStatus();
  }

  absl::Status WaitForAll(Ready* ready) {
    bool cancelled = false;
    while (num_unfinished_ > 0) {
      if (Interrupted() && !std::exchange(cancelled, true)) {
        for (const auto& [id, i] : index_) engine_.Cancel(id);
      }
      const std::shared_ptr<OutputStream> stream = ready->Take();
      if (stream == nullptr) continue;
      const auto found = index_.find(stream->request_id());
      if (found == index_.end()) continue;  // a late notice of an earlier call
      RETURN_IF_ERROR(ReadEvents(found->second, stream.get()));
    }
    return absl::OkStatus();
  }

  std::vector<RequestRecord> TakeRecords() { return std::move(records_); }

 private:
  absl::Status ReadEvents(size_t i, OutputStream* stream) {
    RequestRecord* const record = &records_[i];
    SequenceEvent event;
    while (stream->Read(&event)) {
      const double now = absl::ToDoubleSeconds(MonotonicNow() - submitted_[i]);
      record->cached_tokens += event.num_cached_tokens;
      if (event.kind == SequenceEvent::Kind::kToken) AddToken(now, record);
      if (event.kind != SequenceEvent::Kind::kFinished) continue;
      RETURN_IF_ERROR(stream->status(0));
      const bool is_whole = event.reason != FinishReason::kAbort;
      record->outcome = is_whole ? Outcome::kCompleted : Outcome::kInterrupted;
      record->ended = is_whole ? now : record->last_token;
      --num_unfinished_;
      stage_.Add(1);
    }
    return absl::OkStatus();
  }

  static void AddToken(double now, RequestRecord* record) {
    if (record->num_tokens == 0) {
      record->first_token = now;
    } else {
      record->itl_ms.push_back(static_cast<float>(1000 * (now - record->last_token)));
    }
    record->last_token = now;
    record->completion_tokens = ++record->num_tokens;
  }

  Engine& engine_;
  const std::vector<WorkItem>& items_;
  const RunOptions& options_;
  ProgressStage stage_;
  std::vector<absl::Time> submitted_;
  std::vector<RequestRecord> records_;
  absl::flat_hash_map<RequestId, size_t> index_;
  size_t num_unfinished_ = 0;
};

// "Qwen3ForCausalLM (--shape qwen3-0.6b, random weights), bfloat16, context of 40960 tokens".
std::string ModelText(const EngineFlags& flags, const ModelInfo& model) {
  const std::string shape =
      flags.shape.empty() ? "" : absl::StrCat(" (--shape ", flags.shape, ", random weights)");
  return absl::StrCat(model.config.architecture, shape, ", ", DTypeName(model.dtype),
                      ", context of ", model.max_model_len, " tokens");
}

}  // namespace

void AddEngineFlags(CLI::App& command, EngineFlags* flags) {
  FlagGroup add(command, "Engine");
  add.Text("--shape", &flags->shape, "NAME",
           "Random weights of this shape: " + absl::StrJoin(ModelShapeNames(), ", "));
  add.Seed("--weights-seed", &flags->weights_seed,
           "Of random weights: quire-server's --seed (here --seed is the workload's)");
  AcceptServerFlags(command);
  flags->command = &command;
}

void AddEngineRunFlags(CLI::App& command, EngineRunFlags* flags) {
  FlagGroup(command).Json(&flags->json_file);
  AddSeedFlag(command, &flags->given_seed);
  AddSamplingFlags(command, &flags->sampling);
  AddEngineFlags(command, &flags->engine);
}

absl::StatusOr<BenchEngineConfig> MakeEngineConfig(const EngineFlags& flags, Progress* progress) {
  ASSIGN_OR_RETURN(CommandLine line, ParseServerFlags(*flags.command));
  Settings& settings = line.settings;
  if (const absl::Status status = CheckDevice(line, ServingDevice(settings)); !status.ok()) {
    return WithExitCode(kUsage, status);
  }
  if (flags.weights_seed.has_value()) settings.seed = static_cast<int64_t>(*flags.weights_seed);
  if (flags.shape.empty()) {
    const absl::StatusOr<std::string> folder =
        FindModelFolder(settings, ServingNeeds(settings), progress);
    if (!folder.ok()) {
      return WithExitCode(static_cast<int>(ModelLocationFailureCode(folder.status())),
                          folder.status());
    }
    if (settings.model.empty()) {
      Warn("the small bundled model is measured; --model or --shape names another");
    }
    return BenchEngineConfig{ToEngineConfig(settings, *folder), std::nullopt};
  }
  if (!settings.model.empty()) {
    return UsageError("--shape and --model exclude each other; give one");
  }
  ASSIGN_OR_RETURN(ShapeFolder shape, ShapeFolder::Make(flags.shape));
  BenchEngineConfig result = {ToEngineConfig(settings, shape.path), std::move(shape)};
  result.config.load_format = LoadFormat::kDummy;
  return result;
}

absl::Status StartFailure(const absl::Status& status) {
  return WithExitCode(static_cast<int>(StartFailureCode(status)), status);
}

absl::StatusOr<std::unique_ptr<Engine>> OpenEngine(const EngineFlags& flags, StepTrace* trace) {
  ShownProgress progress;
  ASSIGN_OR_RETURN(BenchEngineConfig bench, MakeEngineConfig(flags, progress.get()));
  bench.config.step_trace = trace;
  bench.config.progress = progress.get();
  // Everything is submitted at once, however much it is.
  bench.config.max_num_queued_reqs = std::numeric_limits<int32_t>::max();
  bench.config.max_num_queued_tokens = std::numeric_limits<int64_t>::max() / 2;
  auto engine = Engine::Open(bench.config);
  if (!engine.ok()) return StartFailure(engine.status());
  return engine;
}

nlohmann::ordered_json BeginEngineRun(const std::string& command, const std::string& what,
                                      const EngineRunFlags& flags, const ModelInfo& model) {
  const std::string text = ModelText(flags.engine, model);
  Print({.command = command,
         .what = absl::StrCat(what, ", in this process (no server)"),
         .lines = {{"model", text},
                   {"device", model.device_name},
                   {"sampling", SamplingText(flags.sampling)},
                   {"seed", SeedText(flags.seed)}}});
  nlohmann::ordered_json json = RunJson(command);
  json["model"] = text;
  json["device"] = model.device_name;
  json["dtype"] = DTypeName(model.dtype);
  json["seed"] = flags.seed;
  json["sampling"] = SamplingJson(flags.sampling);
  return json;
}

absl::StatusOr<std::vector<RequestRecord>> RunItems(Engine& engine,
                                                    const std::vector<WorkItem>& items,
                                                    const RunOptions& options) {
  static Ready ready;  // outlives the engine, whose last notice may cross with the reader
  Batch batch(engine, items, options);
  RETURN_IF_ERROR(batch.Submit(&ready));
  RETURN_IF_ERROR(batch.WaitForAll(&ready));
  return batch.TakeRecords();
}

}  // namespace quire::bench

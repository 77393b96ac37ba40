#include "tools/bench/engine_run.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_join.h"
#include "kernels/base/status_macros.h"
#include "server/model_location.h"
#include "server/settings/settings_parser.h"
#include "tools/bench/model_shapes.h"

namespace quire::bench {

namespace {

// Hands streams with news from the engine's thread to the benchmark's.
class Ready : public OutputListener {
 public:
  void OnOutput(const std::shared_ptr<OutputStream>& stream) override {
    {
      std::lock_guard lock(mutex_);
      streams_.push_back(stream);
    }
    posted_.notify_one();
  }

  std::shared_ptr<OutputStream> Take() {
    std::unique_lock lock(mutex_);
    posted_.wait(lock, [this] { return !streams_.empty(); });
    std::shared_ptr<OutputStream> stream = std::move(streams_.front());
    streams_.pop_front();
    return stream;
  }

 private:
  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::shared_ptr<OutputStream>> streams_;
};

Request MakeRequest(const WorkItem& item) {
  Request request;
  request.prompt = item.prompt;
  request.sampling.temperature = 0;
  request.stop.max_tokens = item.output_len;
  return request;
}

struct Progress {
  EngineRequestTimes times;
  absl::Time submitted, last_token;
};

void AddToken(Progress& progress, absl::Time now) {
  if (progress.last_token == absl::Time()) {
    progress.times.first_token_ms = absl::ToDoubleMilliseconds(now - progress.submitted);
  } else {
    progress.times.itl_ms.push_back(absl::ToDoubleMilliseconds(now - progress.last_token));
  }
  progress.last_token = now;
}

}  // namespace

void AddEngineFlags(CLI::App& command, EngineFlags* flags) {
  command.add_option("--shape", flags->shape,
                     "Random weights of this shape: " + absl::StrJoin(ModelShapeNames(), ", "));
  command.allow_extras();
  flags->command = &command;
}

absl::StatusOr<BenchEngineConfig> MakeEngineConfig(const EngineFlags& flags) {
  ASSIGN_OR_RETURN(CommandLine line, ParseCommandLine(flags.command->remaining()));
  if (flags.shape.empty()) {
    ASSIGN_OR_RETURN(const std::string folder, FindModelFolder(line.settings.model));
    return BenchEngineConfig{ToEngineConfig(line.settings, folder), std::nullopt};
  }
  if (!line.settings.model.empty()) {
    return absl::InvalidArgumentError("--shape and --model exclude each other; give one");
  }
  ASSIGN_OR_RETURN(ShapeFolder shape, ShapeFolder::Make(flags.shape));
  BenchEngineConfig result = {ToEngineConfig(line.settings, shape.path()), std::move(shape)};
  result.config.load_format = LoadFormat::kDummy;
  return result;
}

absl::StatusOr<std::unique_ptr<Engine>> OpenEngine(const EngineFlags& flags, StepTrace* trace) {
  ASSIGN_OR_RETURN(BenchEngineConfig bench, MakeEngineConfig(flags));
  bench.config.step_trace = trace;
  return Engine::Open(bench.config);
}

absl::StatusOr<std::vector<EngineRequestTimes>> RunItems(Engine& engine,
                                                         const std::vector<WorkItem>& items) {
  static Ready ready;  // outlives the engine, whose last notice may cross with the reader
  std::vector<Progress> progress(items.size());
  absl::flat_hash_map<RequestId, size_t> index;
  for (size_t i = 0; i < items.size(); ++i) {
    progress[i].submitted = absl::Now();
    ASSIGN_OR_RETURN(const auto stream, engine.Submit(MakeRequest(items[i]), &ready));
    index[stream->request_id()] = i;
  }
  size_t num_unfinished = items.size();
  while (num_unfinished > 0) {
    const std::shared_ptr<OutputStream> stream = ready.Take();
    const auto found = index.find(stream->request_id());
    if (found == index.end()) continue;  // a late notice of an earlier call
    Progress& mine = progress[found->second];
    SequenceEvent event;
    while (stream->Read(&event)) {
      const absl::Time now = absl::Now();
      if (event.kind == SequenceEvent::Kind::kToken) AddToken(mine, now);
      if (event.kind != SequenceEvent::Kind::kFinished) continue;
      RETURN_IF_ERROR(stream->status(0));
      mine.times.total_ms = absl::ToDoubleMilliseconds(now - mine.submitted);
      --num_unfinished;
    }
  }
  std::vector<EngineRequestTimes> times;
  times.reserve(progress.size());
  for (Progress& one : progress) times.push_back(std::move(one.times));
  return times;
}

}  // namespace quire::bench

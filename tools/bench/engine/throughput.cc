// quire-bench throughput: all requests at once through the engine in this process.

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "kernels/base/clock.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/command_line.h"
#include "tools/bench/commands.h"
#include "tools/bench/engine/engine_load.h"
#include "tools/bench/engine/engine_run.h"
#include "tools/bench/failure.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/result_file.h"
#include "tools/bench/run_header.h"
#include "tools/bench/shown_progress.h"
#include "tools/cli/counted.h"

namespace quire::bench {

namespace {

struct ThroughputFlags : EngineRunFlags {
  WorkloadFlags workload;
  int32_t num_warmups = 1;
  bool save_detailed = false;
};

absl::Status Throughput(ThroughputFlags& flags) {
  RETURN_IF_ERROR(CheckSampling(flags.sampling));
  RETURN_IF_ERROR(CheckSaveDetailed(flags.save_detailed, flags.json_file));
  ASSIGN_OR_RETURN(const auto json_file, OpenResultFile("--json", flags.json_file));
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, OpenEngine(flags.engine));
  const ModelInfo& model = engine->model_info();
  flags.workload.seed = flags.seed = ChooseSeed(flags.given_seed);
  ASSIGN_OR_RETURN(const std::vector<WorkItem> items,
                   MakeWorkload(flags.workload, model.config.vocab_size, model.max_model_len));
  nlohmann::ordered_json json = BeginEngineRun(
      "throughput", WorkloadText(flags.workload, items) + ", all at once", flags, model);
  json["num_prompts"] = items.size();
  json["workload"] = WorkloadJson(flags.workload, items);
  const InterruptibleRun interruptible;
  for (int i = 0; i < flags.num_warmups; ++i) {
    RETURN_IF_ERROR(RunItems(*engine, {{.prompt = {0, 1, 2, 3}, .output_len = 4}}).status());
  }
  engine->FlushPrefixCache();
  const EngineStatus before = engine->status();
  LoadResult load;
  double seconds = 0;
  {
    ShownProgress progress;
    const absl::Time start = MonotonicNow();
    ASSIGN_OR_RETURN(
        auto records,
        RunItems(*engine, items,
                 {.sampling = flags.sampling, .seed = flags.seed, .progress = progress.get()}));
    seconds = absl::ToDoubleSeconds(MonotonicNow() - start);
    AddToLoad(std::move(records), /*seconds=*/0, &load);
  }
  const EngineStatus after = engine->status();
  const ReportOptions options = EngineReportOptions();
  ServeReport report = MakeServeReport(load, options);
  report.seconds = seconds;
  json["interrupted"] = Interrupted();
  json.update(EngineReportJson(report, load, options));
  json["steps"] = after.num_steps - before.num_steps;
  json["preemptions"] = after.scheduler.num_preemptions - before.scheduler.num_preemptions;
  if (flags.save_detailed) json.update(DetailedJson(load.records));
  std::printf("%s%s%s, %s\n", Interrupted() ? "interrupted; results so far:\n" : "",
              ToText(report, options).c_str(),
              Counted(json["steps"].get<int64_t>(), "step").c_str(),
              Counted(json["preemptions"].get<int64_t>(), "preemption").c_str());
  if (flags.workload.shared_prefix_len == 0) {
    WarnIfCached(report.prompt_tokens, report.cached_tokens);
  }
  return WriteJson(json, json_file.get());
}

}  // namespace

Command AddThroughput(CLI::App& app) {
  CLI::App* command = app.add_subcommand("throughput",
                                         "All requests at once through an engine of its own, "
                                         "without a server");
  command->footer(
      "Examples:\n"
      "  quire-bench throughput --shape qwen3-0.6b --num-prompts 64 --input-len 128\n"
      "  quire-bench throughput --model FOLDER --temperature 0.8 --json result.json\n"
      "  quire-bench throughput --model FOLDER --workload lengths.jsonl --max-num-seqs 128");
  const auto flags = std::make_shared<ThroughputFlags>();
  FlagGroup add(*command);
  add.Count("--num-warmups", &flags->num_warmups, 0, 1000, "Short requests before the clock starts")
      ->capture_default_str();
  add.SaveDetailed(&flags->save_detailed);
  AddWorkloadFlags(*command, &flags->workload);
  AddEngineRunFlags(*command, flags.get());
  AddIgnoreEosFlag(*command, &flags->sampling);
  return [flags] { return Finish(Throughput(*flags)); };
}

}  // namespace quire::bench

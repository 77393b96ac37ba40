// quire-bench timeline: what the device and the host do step by step in steady decode.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "tools/bench/commands.h"
#include "tools/bench/engine_run.h"
#include "tools/bench/timeline_report.h"

namespace quire::bench {

namespace {

struct TimelineFlags {
  EngineFlags engine;
  int64_t batch_size = 64;
  int64_t context = 1024;
  int64_t num_steps = 128;
  int64_t num_shown = 6;
  std::string html_file;
  std::string json_file;
};

constexpr int64_t kMargin = 8;  // steps at either end of the run that are not steady yet

// The prompts end half the steps short of the context, so that it is the average.
absl::StatusOr<std::vector<WorkItem>> MakeItems(const TimelineFlags& flags,
                                                const ModelInfo& model) {
  const int64_t output_len = flags.num_steps + 2 * kMargin + 2;
  // The first sequences decode while the last are still prefilled: they need more tokens.
  const int64_t num_prefill_steps = flags.batch_size;
  return MakeWorkload({.num_prompts = flags.batch_size,
                       .input_len = std::max<int64_t>(1, flags.context - output_len / 2),
                       .output_len = output_len + num_prefill_steps,
                       .shared_prefix_len = 0,
                       .file = "",
                       .seed = 1},
                      model.config.vocab_size, model.max_model_len);
}

absl::StatusOr<TimelineReport> Trace(const TimelineFlags& flags) {
  StepTrace trace(/*num_steps=*/1 << 14);
  auto engine = OpenEngine(flags.engine, &trace);
  if (!engine.ok()) return engine.status();
  const ModelInfo& model = (*engine)->model_info();
  const std::string title = absl::StrFormat(
      "%s, %s, %s: %d sequences, context about %d", model.device_name, model.config.architecture,
      DTypeName(model.dtype), flags.batch_size, flags.context);
  const auto items = MakeItems(flags, model);
  if (!items.ok()) return items.status();
  const auto times = RunItems(**engine, *items);
  if (!times.ok()) return times.status();
  engine->reset();  // the trace may be read from now on
  TimelineReport report = MakeTimelineReport(trace, flags.batch_size, kMargin);
  if (report.num_steps == 0) {
    return absl::FailedPreconditionError(
        "no run of steps in which all sequences decode: give --max-num-seqs of at least "
        "--batch-size, and a KV cache that holds them all");
  }
  report.title = title;
  return report;
}

int Timeline(const TimelineFlags& flags) {
  const auto report = Trace(flags);
  if (!report.ok()) return Fail(std::string(report.status().message()));
  std::printf("%s", ToText(*report).c_str());
  if (!flags.json_file.empty()) {
    std::ofstream(flags.json_file) << ToJson(*report).dump(2) << "\n";
  }
  if (!flags.html_file.empty()) {
    std::ofstream(flags.html_file) << ToHtml(*report, flags.num_shown);
  }
  return 0;
}

}  // namespace

Command AddTimeline(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "timeline", "Steady decode step by step, device and host; further flags are quire-server's");
  const auto flags = std::make_shared<TimelineFlags>();
  command->add_option("--batch-size", flags->batch_size, "Sequences that decode together")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command->add_option("--context", flags->context, "Their tokens, on average")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--num-steps", flags->num_steps, "Least steps to look at")
      ->check(CLI::Range(2, 8192))
      ->capture_default_str();
  command->add_option("--html", flags->html_file, "Write a picture to this file");
  command->add_option("--num-shown", flags->num_shown, "Steps in the picture")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--json", flags->json_file, "Write the results to this file");
  AddEngineFlags(*command, &flags->engine);
  return [flags] { return Timeline(*flags); };
}

}  // namespace quire::bench

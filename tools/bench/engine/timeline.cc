// quire-bench timeline: what the device and the host do step by step in steady decode.

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_format.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/command_line.h"
#include "tools/bench/commands.h"
#include "tools/bench/engine/engine_run.h"
#include "tools/bench/engine/timeline_report.h"
#include "tools/bench/failure.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/result_file.h"
#include "tools/bench/run_header.h"
#include "tools/bench/shown_progress.h"

namespace quire::bench {

namespace {

struct TimelineFlags : EngineRunFlags {
  int64_t batch_size = 64;
  int64_t context = 1024;
  int64_t num_steps = 128;
  int64_t num_shown = 6;
  std::optional<std::string> html_file;
};

constexpr int64_t kMargin = 8;  // steps at either end of the run that are not steady yet

TimelineLengths LengthsOf(const TimelineFlags& flags) {
  return LengthsFor(flags.batch_size, flags.num_steps + 2 * kMargin + 2, flags.context);
}

absl::Status CheckContext(const TimelineFlags& flags) {
  const int64_t context = LengthsOf(flags).context();
  if (context <= flags.context) return absl::OkStatus();
  return UsageError(absl::StrFormat(
      "--context %d is too short: while %d sequences decode together for %d steps they have %d "
      "tokens on average at least; give that, or a smaller --batch-size or --num-steps",
      flags.context, flags.batch_size, flags.num_steps, context));
}

absl::StatusOr<std::vector<WorkItem>> MakeItems(const TimelineFlags& flags,
                                                const ModelInfo& model) {
  const TimelineLengths lengths = LengthsOf(flags);
  return MakeWorkload({.num_prompts = flags.batch_size,
                       .input_len = lengths.input_len,
                       .output_len = lengths.output_len,
                       .shared_prefix_len = 0,
                       .file = "",
                       .seed = flags.seed},
                      model.config.vocab_size, model.max_model_len);
}

absl::StatusOr<TimelineReport> Trace(const TimelineFlags& flags, nlohmann::ordered_json* json) {
  StepTrace trace(/*num_steps=*/1 << 14);
  ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, OpenEngine(flags.engine, &trace));
  const ModelInfo& model = engine->model_info();
  const std::string title = absl::StrFormat(
      "%s, %s, %s: %d sequences, context about %d", model.device_name, model.config.architecture,
      DTypeName(model.dtype), flags.batch_size, flags.context);
  ASSIGN_OR_RETURN(const std::vector<WorkItem> items, MakeItems(flags, model));
  *json =
      BeginEngineRun("timeline",
                     absl::StrFormat("steps of %d sequences that decode together, context about %d",
                                     flags.batch_size, flags.context),
                     flags, model);
  {
    const InterruptibleRun interruptible;
    ShownProgress progress;
    RETURN_IF_ERROR(
        RunItems(*engine, items,
                 {.sampling = flags.sampling, .seed = flags.seed, .progress = progress.get()})
            .status());
  }
  engine.reset();  // the trace may be read from now on
  TimelineReport report = MakeTimelineReport(trace, flags.batch_size, kMargin);
  if (report.num_steps == 0) {
    return UsageError(Interrupted()
                          ? "interrupted before all sequences decoded together: no results"
                          : "no run of steps in which all sequences decode: give --max-num-seqs of "
                            "at least --batch-size, and a KV cache that holds them all");
  }
  report.title = title;
  return report;
}

absl::Status Timeline(TimelineFlags& flags) {
  RETURN_IF_ERROR(CheckSampling(flags.sampling));
  RETURN_IF_ERROR(CheckContext(flags));
  if (flags.json_file.has_value() && flags.json_file == flags.html_file) {
    return UsageError("--json and --html name the same file; give two");
  }
  ASSIGN_OR_RETURN(const auto json_file, OpenResultFile("--json", flags.json_file));
  ASSIGN_OR_RETURN(const auto html_file, OpenResultFile("--html", flags.html_file));
  flags.seed = ChooseSeed(flags.given_seed);
  nlohmann::ordered_json json;
  const auto report = Trace(flags, &json);
  if (!report.ok()) {
    return Interrupted() ? WithExitCode(kInterruptedExit, report.status()) : report.status();
  }
  std::printf("%s%s", Interrupted() ? "interrupted; results so far:\n" : "",
              ToText(*report).c_str());
  json["interrupted"] = Interrupted();
  json.update(ToJson(*report));
  RETURN_IF_ERROR(WriteJson(json, json_file.get()));
  if (html_file != nullptr) RETURN_IF_ERROR(html_file->Write(ToHtml(*report, flags.num_shown)));
  return absl::OkStatus();
}

}  // namespace

Command AddTimeline(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "timeline", "Steady decode step by step, device and host, in an engine of its own");
  command->footer(
      "Examples:\n"
      "  quire-bench timeline --batch-size 8 --html steps.html\n"
      "  quire-bench timeline --shape llama-3-8b --batch-size 64 --context 1030 --json steps.json");
  const auto flags = std::make_shared<TimelineFlags>();
  FlagGroup add(*command);
  add.Count("--batch-size", &flags->batch_size, 1, 65536, "Sequences that decode together")
      ->capture_default_str();
  add.Count("--context", &flags->context, 1, 1 << 20, "Their tokens, on average")
      ->capture_default_str();
  add.Count("--num-steps", &flags->num_steps, 2, 8192, "Minimum of steps to look at")
      ->capture_default_str();
  add.Text("--html", &flags->html_file, "FILE", "Write a picture to this file");
  add.Count("--num-shown", &flags->num_shown, 1, 1000, "Steps in the picture")
      ->capture_default_str();
  AddEngineRunFlags(*command, flags.get());
  return [flags] { return Finish(Timeline(*flags)); };
}

}  // namespace quire::bench

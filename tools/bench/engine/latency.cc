// quire-bench latency: one batch at a time through the engine in this process.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/base/clock.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/command_line.h"
#include "tools/bench/commands.h"
#include "tools/bench/engine/engine_load.h"
#include "tools/bench/engine/engine_run.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/result_file.h"
#include "tools/bench/run_header.h"
#include "tools/bench/serve/serve_report.h"
#include "tools/bench/shown_progress.h"
#include "tools/bench/statistics.h"

namespace quire::bench {

namespace {

struct LatencyFlags : EngineRunFlags {
  int64_t batch_size = 1;
  int64_t input_len = 32;
  int64_t output_len = 128;
  int64_t shared_prefix_len = 0;
  int32_t num_warmups = 2;
  int32_t num_iterations = 10;
  bool save_detailed = false;
};

struct Samples {
  LoadResult load;  // each batch sent when the one before it has ended
  std::vector<double> batch_ms;
};

// Other prompts each time, so that no iteration finds more of them in the prefix cache than the
// beginning that all share.
absl::StatusOr<std::vector<WorkItem>> MakeBatch(const LatencyFlags& flags, const ModelInfo& model,
                                                int32_t iteration) {
  const auto make = [&](int64_t num_prompts, uint64_t seed) {
    return MakeWorkload({.num_prompts = num_prompts,
                         .input_len = flags.input_len,
                         .output_len = flags.output_len,
                         .shared_prefix_len = flags.shared_prefix_len,
                         .file = "",
                         .seed = seed},
                        model.config.vocab_size, model.max_model_len);
  };
  ASSIGN_OR_RETURN(std::vector<WorkItem> items, make(flags.batch_size, flags.seed + iteration));
  if (flags.shared_prefix_len == 0) return items;
  ASSIGN_OR_RETURN(const std::vector<WorkItem> first, make(1, flags.seed));
  for (WorkItem& item : items) {
    std::copy_n(first[0].prompt.begin(), flags.shared_prefix_len, item.prompt.begin());
  }
  return items;
}

// An iteration that was interrupted does not count.
absl::Status RunIterations(const LatencyFlags& flags, Engine& engine, Samples* samples) {
  const int32_t num_rounds = flags.num_warmups + flags.num_iterations;
  ShownProgress progress;
  ProgressStage stage(progress.get(), "iterations", num_rounds, ProgressUnit::kItems);
  double seconds = 0;
  for (int32_t i = 0; i < num_rounds; ++i) {
    ASSIGN_OR_RETURN(const auto items, MakeBatch(flags, engine.model_info(), i));
    const absl::Time start = MonotonicNow();
    ASSIGN_OR_RETURN(auto records,
                     RunItems(engine, items, {.sampling = flags.sampling, .seed = flags.seed + i}));
    const double batch_ms = absl::ToDoubleMilliseconds(MonotonicNow() - start);
    if (Interrupted()) return absl::OkStatus();
    stage.Add(1);
    if (i < flags.num_warmups) continue;
    AddToLoad(std::move(records), seconds, &samples->load);
    samples->batch_ms.push_back(batch_ms);
    seconds += batch_ms / 1000;
  }
  return absl::OkStatus();
}

// Of one sequence; none where each answer is one token.
std::optional<double> DecodeTokensPerSecond(const ServeReport& report) {
  const double itl_ms = Distribution(report.itl_ms).Percentile(50);
  return itl_ms > 0 ? std::optional(1000 / itl_ms) : std::nullopt;
}

void AddResult(const LatencyFlags& flags, const Samples& samples, const ServeReport& report,
               const ReportOptions& options, nlohmann::ordered_json* result) {
  nlohmann::ordered_json& json = *result;
  json["num_prompts"] = flags.num_iterations * flags.batch_size;
  json["interrupted"] = Interrupted();
  json["iterations"] = samples.batch_ms.size();
  json["batch_size"] = flags.batch_size;
  json["input_len"] = flags.input_len;
  json["output_len"] = flags.output_len;
  json["shared_prefix_len"] = flags.shared_prefix_len;
  json["batch_ms"] = ToJson(Distribution(samples.batch_ms));
  json.update(EngineReportJson(report, samples.load, options));
  json["decode_tokens_per_s"] = nullptr;
  if (const auto rate = DecodeTokensPerSecond(report); rate.has_value()) {
    json["decode_tokens_per_s"] = *rate * static_cast<double>(flags.batch_size);
  }
  if (flags.save_detailed) json.update(DetailedJson(samples.load.records));
}

void PrintResult(const LatencyFlags& flags, const Samples& samples, const ServeReport& report,
                 const ReportOptions& options) {
  if (Interrupted()) {
    std::printf("interrupted; results so far, %zu of %d iterations:\n", samples.batch_ms.size(),
                flags.num_iterations);
  }
  std::printf("%s%s\n", ToText(report, options).c_str(),
              SummaryRow("whole batch", Distribution(samples.batch_ms)).c_str());
  if (const auto rate = DecodeTokensPerSecond(report); rate.has_value()) {
    std::printf("decode: %.1f tokens/s per sequence, %.1f tokens/s in all (median)\n", *rate,
                *rate * static_cast<double>(flags.batch_size));
  }
}

absl::Status Latency(LatencyFlags& flags) {
  RETURN_IF_ERROR(CheckSampling(flags.sampling));
  RETURN_IF_ERROR(CheckSaveDetailed(flags.save_detailed, flags.json_file));
  ASSIGN_OR_RETURN(const auto json_file, OpenResultFile("--json", flags.json_file));
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, OpenEngine(flags.engine));
  flags.seed = ChooseSeed(flags.given_seed);
  const ModelInfo& model = engine->model_info();
  RETURN_IF_ERROR(MakeBatch(flags, model, 0).status());
  nlohmann::ordered_json json = BeginEngineRun(
      "latency",
      absl::StrFormat("batches of %d requests of %d + %d tokens, %d times after %d to warm up",
                      flags.batch_size, flags.input_len, flags.output_len, flags.num_iterations,
                      flags.num_warmups),
      flags, model);
  Samples samples;
  {
    const InterruptibleRun interruptible;
    RETURN_IF_ERROR(RunIterations(flags, *engine, &samples));
  }
  ReportOptions options = EngineReportOptions();
  options.percentiles = {90, 99};
  const ServeReport report = MakeServeReport(samples.load, options);
  PrintResult(flags, samples, report, options);
  if (flags.shared_prefix_len == 0) WarnIfCached(report.prompt_tokens, report.cached_tokens);
  AddResult(flags, samples, report, options, &json);
  return WriteJson(json, json_file.get());
}

}  // namespace

Command AddLatency(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "latency", "One batch at a time through an engine of its own, without a server");
  command->footer(
      "Examples:\n"
      "  quire-bench latency --shape qwen3-0.6b --batch-size 1 --input-len 32 --output-len 128\n"
      "  quire-bench latency --model FOLDER --batch-size 8 --num-iters 3 --save-detailed --json "
      "result.json\n"
      "  quire-bench latency --shape qwen3-0.6b --input-len 8000 --shared-prefix-len 7936 "
      "--output-len 1");
  const auto flags = std::make_shared<LatencyFlags>();
  FlagGroup add(*command, "Workload");
  add.Count("--batch-size", &flags->batch_size, 1, 65536, "Requests of a batch")
      ->capture_default_str();
  add.Count("--input-len", &flags->input_len, 1, 1 << 24, "Prompt tokens of each")
      ->capture_default_str();
  add.Count("--output-len", &flags->output_len, 1, 1 << 24, "Generated tokens of each")
      ->capture_default_str();
  add.Count("--shared-prefix-len", &flags->shared_prefix_len, 0, 1 << 24,
            "Leading prompt tokens that all requests share: found in the prefix cache but by the "
            "first")
      ->capture_default_str();
  add.Count("--num-iters-warmup", &flags->num_warmups, 0, 100000, "Batches before those that count")
      ->capture_default_str();
  add.Count("--num-iters", &flags->num_iterations, 1, 100000, "Batches that count")
      ->capture_default_str();
  FlagGroup(*command).SaveDetailed(&flags->save_detailed);
  AddEngineRunFlags(*command, flags.get());
  AddIgnoreEosFlag(*command, &flags->sampling);
  return [flags] { return Finish(Latency(*flags)); };
}

}  // namespace quire::bench

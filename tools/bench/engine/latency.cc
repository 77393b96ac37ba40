// quire-bench latency: one batch at a time through the engine in this process.

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/command_line.h"
#include "tools/bench/commands.h"
#include "tools/bench/engine/engine_run.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/result_file.h"
#include "tools/bench/run_header.h"
#include "tools/bench/serve/serve_report.h"
#include "tools/bench/shown_progress.h"
#include "tools/bench/statistics.h"

namespace quire::bench {

namespace {

struct LatencyFlags {
  int64_t batch_size = 1;
  int64_t input_len = 32;
  int64_t output_len = 128;
  int32_t num_warmups = 2;
  int32_t num_iterations = 10;
  SamplingFlags sampling;
  std::optional<uint64_t> given_seed;
  uint64_t seed = 0;  // the one used
  std::optional<std::string> json_file;
  EngineFlags engine;
};

struct Samples {
  int64_t num_iterations = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0;
  std::vector<double> batch_ms, first_token_ms, itl_ms;
};

// Other prompts each time, so that no iteration finds its prompt in the prefix cache.
absl::StatusOr<std::vector<WorkItem>> MakeBatch(const LatencyFlags& flags, const ModelInfo& model,
                                                int32_t iteration) {
  return MakeWorkload({.num_prompts = flags.batch_size,
                       .input_len = flags.input_len,
                       .output_len = flags.output_len,
                       .shared_prefix_len = 0,
                       .file = "",
                       .seed = flags.seed + iteration},
                      model.config.vocab_size, model.max_model_len);
}

// An iteration that was interrupted does not count.
absl::Status RunIterations(const LatencyFlags& flags, Engine& engine, Samples* samples) {
  const int32_t num_rounds = flags.num_warmups + flags.num_iterations;
  ShownProgress progress;
  ProgressStage stage(progress.get(), "iterations", num_rounds, ProgressUnit::kItems);
  for (int32_t i = 0; i < num_rounds; ++i) {
    ASSIGN_OR_RETURN(const auto items, MakeBatch(flags, engine.model_info(), i));
    const absl::Time start = absl::Now();
    ASSIGN_OR_RETURN(const auto times,
                     RunItems(engine, items, {.sampling = flags.sampling, .seed = flags.seed + i}));
    const double batch_ms = absl::ToDoubleMilliseconds(absl::Now() - start);
    if (Interrupted()) return absl::OkStatus();
    stage.Add(1);
    if (i < flags.num_warmups) continue;
    ++samples->num_iterations;
    samples->batch_ms.push_back(batch_ms);
    for (const EngineRequestTimes& one : times) {
      samples->prompt_tokens += flags.input_len;
      samples->cached_tokens += one.num_cached_tokens;
      samples->first_token_ms.push_back(one.first_token_ms);
      samples->itl_ms.insert(samples->itl_ms.end(), one.itl_ms.begin(), one.itl_ms.end());
    }
  }
  return absl::OkStatus();
}

nlohmann::ordered_json ToJson(const LatencyFlags& flags, const ModelInfo& model,
                              const Samples& samples) {
  const Summary itl = Summarize(samples.itl_ms);
  const double tokens_per_s =
      itl.p50 > 0 ? 1000.0 / itl.p50 * static_cast<double>(flags.batch_size) : 0;
  nlohmann::ordered_json json = RunJson("latency");
  json["model"] = ModelText(flags.engine, model);
  json["device"] = model.device_name;
  json["dtype"] = DTypeName(model.dtype);
  json["seed"] = flags.seed;
  json["sampling"] = SamplingJson(flags.sampling);
  json["interrupted"] = Interrupted();
  json["iterations"] = samples.num_iterations;
  json["batch_size"] = flags.batch_size;
  json["input_len"] = flags.input_len;
  json["output_len"] = flags.output_len;
  json["batch_ms"] = ToJson(Summarize(samples.batch_ms));
  AddLatencies("ttft", samples.first_token_ms, {90, 99}, &json);
  AddLatencies("itl", samples.itl_ms, {90, 99}, &json);
  json["decode_tokens_per_s"] = tokens_per_s;
  return json;
}

void PrintResult(const LatencyFlags& flags, const Samples& samples) {
  if (Interrupted()) {
    std::printf("interrupted; results so far, %lld of %d iterations:\n",
                static_cast<long long>(samples.num_iterations), flags.num_iterations);
  }
  const Summary itl = Summarize(samples.itl_ms);
  std::printf("%s\n%s\n%s\n%s\n", SummaryHeader("latency, ms").c_str(),
              SummaryRow("whole batch", Summarize(samples.batch_ms)).c_str(),
              SummaryRow("time to first token", Summarize(samples.first_token_ms)).c_str(),
              SummaryRow("inter-token latency", itl).c_str());
  if (itl.p50 > 0) {
    std::printf("decode: %.1f tokens/s per sequence, %.1f tokens/s in all (median)\n",
                1000.0 / itl.p50, 1000.0 / itl.p50 * static_cast<double>(flags.batch_size));
  }
}

absl::Status Latency(LatencyFlags& flags) {
  RETURN_IF_ERROR(CheckSampling(flags.sampling));
  ASSIGN_OR_RETURN(const auto json_file, OpenResultFile("--json", flags.json_file));
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, OpenEngine(flags.engine));
  flags.seed = ChooseSeed(flags.given_seed);
  const ModelInfo& model = engine->model_info();
  RETURN_IF_ERROR(MakeBatch(flags, model, 0).status());
  Print({.command = "latency",
         .what = absl::StrFormat("batches of %d requests of %d + %d tokens, %d times after %d to "
                                 "warm up, in this process (no server)",
                                 flags.batch_size, flags.input_len, flags.output_len,
                                 flags.num_iterations, flags.num_warmups),
         .lines = {{"model", ModelText(flags.engine, model)},
                   {"device", model.device_name},
                   {"sampling", SamplingText(flags.sampling)},
                   {"seed", SeedText(flags.seed)}}});
  Samples samples;
  {
    const InterruptibleRun interruptible;
    RETURN_IF_ERROR(RunIterations(flags, *engine, &samples));
  }
  PrintResult(flags, samples);
  WarnIfCached(samples.prompt_tokens, samples.cached_tokens);
  if (json_file == nullptr) return absl::OkStatus();
  return json_file->Write(ToJson(flags, model, samples).dump(2) + "\n");
}

}  // namespace

Command AddLatency(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "latency", "One batch at a time through an engine of its own, without a server");
  command->footer(
      "Examples:\n"
      "  quire-bench latency --shape qwen3-0.6b --batch-size 1 --input-len 32 --output-len 128\n"
      "  quire-bench latency --model FOLDER --batch-size 8 --num-iters 3 --json result.json");
  const auto flags = std::make_shared<LatencyFlags>();
  const auto add = [&](const std::string& flag, auto* value, int64_t min, int64_t max,
                       const std::string& help) {
    command->add_option(flag, *value, help)
        ->check(CLI::Range(min, max))
        ->type_name("N")
        ->capture_default_str()
        ->group("Workload");
  };
  add("--batch-size", &flags->batch_size, 1, 65536, "Requests of a batch");
  add("--input-len", &flags->input_len, 1, 1 << 24, "Prompt tokens of each");
  add("--output-len", &flags->output_len, 1, 1 << 24, "Generated tokens of each");
  add("--num-iters-warmup", &flags->num_warmups, 0, 100000, "Batches before those that count");
  add("--num-iters", &flags->num_iterations, 1, 100000, "Batches that count");
  AddJsonFlag(*command, &flags->json_file);
  AddSeedFlag(*command, &flags->given_seed);
  AddSamplingFlags(*command, &flags->sampling);
  AddIgnoreEosFlag(*command, &flags->sampling);
  AddEngineFlags(*command, &flags->engine);
  return [flags] { return Finish(Latency(*flags)); };
}

}  // namespace quire::bench

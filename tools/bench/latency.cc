// quire-bench latency: one batch at a time through the engine in this process.

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tools/bench/commands.h"
#include "tools/bench/engine_run.h"
#include "tools/bench/statistics.h"

namespace quire::bench {

namespace {

struct LatencyFlags {
  int64_t batch_size = 1;
  int64_t input_len = 32;
  int64_t output_len = 128;
  int32_t num_warmups = 2;
  int32_t num_iterations = 10;
  std::string json_file;
  EngineFlags engine;
};

int Latency(const LatencyFlags& flags) {
  auto engine = OpenEngine(flags.engine);
  if (!engine.ok()) return Fail(std::string(engine.status().message()));
  const ModelInfo& model = (*engine)->model_info();
  std::vector<double> batch_ms, first_token_ms, itl_ms;
  for (int32_t i = 0; i < flags.num_warmups + flags.num_iterations; ++i) {
    // Other prompts each time, so that no iteration finds its prompt in the prefix cache.
    const WorkloadFlags workload = {.num_prompts = flags.batch_size,
                                    .input_len = flags.input_len,
                                    .output_len = flags.output_len,
                                    .shared_prefix_len = 0,
                                    .file = "",
                                    .seed = static_cast<uint64_t>(i)};
    const auto items = MakeWorkload(workload, model.config.vocab_size, model.max_model_len);
    if (!items.ok()) return Fail(std::string(items.status().message()));
    const absl::Time start = absl::Now();
    const auto times = RunItems(**engine, *items);
    if (!times.ok()) return Fail(std::string(times.status().message()));
    if (i < flags.num_warmups) continue;
    batch_ms.push_back(absl::ToDoubleMilliseconds(absl::Now() - start));
    for (const EngineRequestTimes& one : *times) {
      first_token_ms.push_back(one.first_token_ms);
      itl_ms.insert(itl_ms.end(), one.itl_ms.begin(), one.itl_ms.end());
    }
  }
  const Summary itl = Summarize(itl_ms);
  std::printf("%s, %s: batch %lld, %lld in, %lld out, %d iterations\n", model.device_name.c_str(),
              DTypeName(model.dtype), static_cast<long long>(flags.batch_size),
              static_cast<long long>(flags.input_len), static_cast<long long>(flags.output_len),
              flags.num_iterations);
  std::printf("%s\n%s\n%s\n%s\n", SummaryHeader("latency, ms").c_str(),
              SummaryRow("whole batch", Summarize(batch_ms)).c_str(),
              SummaryRow("time to first token", Summarize(first_token_ms)).c_str(),
              SummaryRow("inter-token latency", itl).c_str());
  const double tokens_per_s =
      itl.p50 > 0 ? 1000.0 / itl.p50 * static_cast<double>(flags.batch_size) : 0;
  if (itl.p50 > 0) {
    std::printf("decode: %.1f tokens/s per sequence, %.1f tokens/s in all (median)\n",
                1000.0 / itl.p50, tokens_per_s);
  }
  if (!flags.json_file.empty()) {
    const nlohmann::ordered_json json = {{"device", model.device_name},
                                         {"dtype", DTypeName(model.dtype)},
                                         {"batch_size", flags.batch_size},
                                         {"input_len", flags.input_len},
                                         {"output_len", flags.output_len},
                                         {"batch_ms", ToJson(Summarize(batch_ms))},
                                         {"ttft_ms", ToJson(Summarize(first_token_ms))},
                                         {"itl_ms", ToJson(itl)},
                                         {"decode_tokens_per_s", tokens_per_s}};
    std::ofstream(flags.json_file) << json.dump(2) << "\n";
  }
  return 0;
}

}  // namespace

Command AddLatency(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "latency", "Offline: one batch at a time; further flags are quire-server's");
  const auto flags = std::make_shared<LatencyFlags>();
  command->add_option("--batch-size", flags->batch_size)->capture_default_str();
  command->add_option("--input-len", flags->input_len)->capture_default_str();
  command->add_option("--output-len", flags->output_len)->capture_default_str();
  command->add_option("--num-iters-warmup", flags->num_warmups)->capture_default_str();
  command->add_option("--num-iters", flags->num_iterations)->capture_default_str();
  command->add_option("--json", flags->json_file, "Write the results to this file");
  AddEngineFlags(*command, &flags->engine);
  return [flags] { return Latency(*flags); };
}

}  // namespace quire::bench

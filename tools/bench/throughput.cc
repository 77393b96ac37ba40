// quire-bench throughput: all requests at once through the engine in this process.

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

struct ThroughputFlags {
  WorkloadFlags workload;
  int32_t num_warmups = 1;
  std::string json_file;
  EngineFlags engine;
};

int Throughput(const ThroughputFlags& flags) {
  auto engine = OpenEngine(flags.engine);
  if (!engine.ok()) return Fail(std::string(engine.status().message()));
  const ModelInfo& model = (*engine)->model_info();
  const auto items = MakeWorkload(flags.workload, model.config.vocab_size, model.max_model_len);
  if (!items.ok()) return Fail(std::string(items.status().message()));
  for (int i = 0; i < flags.num_warmups; ++i) {
    const auto times = RunItems(**engine, {{.prompt = {0, 1, 2, 3}, .output_len = 4}});
    if (!times.ok()) return Fail(std::string(times.status().message()));
  }
  (*engine)->FlushPrefixCache();
  const EngineStatus before = (*engine)->status();
  const absl::Time start = absl::Now();
  const auto times = RunItems(**engine, *items);
  if (!times.ok()) return Fail(std::string(times.status().message()));
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  const EngineStatus after = (*engine)->status();
  int64_t prompt_tokens = 0, output_tokens = 0;
  std::vector<double> first_token_ms, itl_ms;
  for (size_t i = 0; i < items->size(); ++i) {
    prompt_tokens += static_cast<int64_t>((*items)[i].prompt.size());
    output_tokens += (*items)[i].output_len;
    first_token_ms.push_back((*times)[i].first_token_ms);
    itl_ms.insert(itl_ms.end(), (*times)[i].itl_ms.begin(), (*times)[i].itl_ms.end());
  }
  const nlohmann::ordered_json json = {
      {"device", model.device_name},
      {"dtype", DTypeName(model.dtype)},
      {"requests", items->size()},
      {"seconds", seconds},
      {"prompt_tokens", prompt_tokens},
      {"output_tokens", output_tokens},
      {"steps", after.num_steps - before.num_steps},
      {"preemptions", after.scheduler.num_preemptions - before.scheduler.num_preemptions},
      {"requests_per_s", static_cast<double>(items->size()) / seconds},
      {"output_tokens_per_s", static_cast<double>(output_tokens) / seconds},
      {"total_tokens_per_s", static_cast<double>(output_tokens + prompt_tokens) / seconds},
      {"ttft_ms", ToJson(Summarize(first_token_ms))},
      {"itl_ms", ToJson(Summarize(itl_ms))}};
  std::printf("%s, %s: %zu requests, %lld prompt and %lld output tokens in %.2f s\n",
              model.device_name.c_str(), DTypeName(model.dtype), items->size(),
              static_cast<long long>(prompt_tokens), static_cast<long long>(output_tokens),
              seconds);
  std::printf(
      "%.2f requests/s, %.1f output tokens/s, %.1f tokens/s in all, %llu steps, "
      "%lld preemptions\n",
      json["requests_per_s"].get<double>(), json["output_tokens_per_s"].get<double>(),
      json["total_tokens_per_s"].get<double>(),
      static_cast<unsigned long long>(after.num_steps - before.num_steps),
      json["preemptions"].get<long long>());
  if (!flags.json_file.empty()) std::ofstream(flags.json_file) << json.dump(2) << "\n";
  return 0;
}

}  // namespace

Command AddThroughput(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "throughput", "Offline: all requests at once; further flags are quire-server's");
  const auto flags = std::make_shared<ThroughputFlags>();
  command->add_option("--num-warmups", flags->num_warmups, "Short requests before the clock starts")
      ->capture_default_str();
  command->add_option("--json", flags->json_file, "Write the results to this file");
  AddWorkloadFlags(*command, &flags->workload);
  AddEngineFlags(*command, &flags->engine);
  return [flags] { return Throughput(*flags); };
}

}  // namespace quire::bench

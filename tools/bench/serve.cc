// quire-bench serve: loads a running server and prints latencies and throughput.

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/bench/commands.h"
#include "tools/bench/load.h"
#include "tools/bench/statistics.h"
#include "tools/bench/workload.h"
#include "tools/client/rpc.h"

namespace quire::bench {

namespace {

struct ServeFlags {
  std::string target = client::kDefaultTarget;
  WorkloadFlags workload;
  LoadOptions load;
  std::string json_file;
};

double Ms(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

struct ServeResult {
  std::vector<double> ttft_ms, tpot_ms, itl_ms, e2e_ms;
  int64_t num_completed = 0, num_failed = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  double seconds = 0;
  grpc::Status first_failure;
};

ServeResult Evaluate(const std::vector<RequestRecord>& records) {
  ServeResult result;
  if (records.empty()) return result;
  Clock::time_point begin = records[0].started;
  Clock::time_point end = begin;
  for (const RequestRecord& record : records) {
    end = std::max(end, record.ended);
    if (!record.status.ok() || record.token_times.empty()) {
      if (result.num_failed++ == 0) result.first_failure = record.status;
      continue;
    }
    ++result.num_completed;
    result.prompt_tokens += record.prompt_tokens;
    result.cached_tokens += record.cached_tokens;
    result.completion_tokens += record.completion_tokens;
    const auto& times = record.token_times;
    result.ttft_ms.push_back(Ms(times.front() - record.started));
    result.e2e_ms.push_back(Ms(record.ended - record.started));
    for (size_t i = 1; i < times.size(); ++i) result.itl_ms.push_back(Ms(times[i] - times[i - 1]));
    if (times.size() > 1) {
      result.tpot_ms.push_back(Ms(times.back() - times.front()) /
                               static_cast<double>(times.size() - 1));
    }
  }
  result.seconds = Ms(end - begin) / 1000.0;
  return result;
}

nlohmann::ordered_json ToJson(const ServeResult& result) {
  const double seconds = result.seconds > 0 ? result.seconds : 1;
  return {{"completed", result.num_completed},
          {"failed", result.num_failed},
          {"duration_s", result.seconds},
          {"prompt_tokens", result.prompt_tokens},
          {"cached_tokens", result.cached_tokens},
          {"completion_tokens", result.completion_tokens},
          {"requests_per_s", static_cast<double>(result.num_completed) / seconds},
          {"output_tokens_per_s", static_cast<double>(result.completion_tokens) / seconds},
          {"total_tokens_per_s",
           static_cast<double>(result.completion_tokens + result.prompt_tokens) / seconds},
          {"ttft_ms", ToJson(Summarize(result.ttft_ms))},
          {"tpot_ms", ToJson(Summarize(result.tpot_ms))},
          {"itl_ms", ToJson(Summarize(result.itl_ms))},
          {"e2e_ms", ToJson(Summarize(result.e2e_ms))}};
}

void Print(const ServeResult& result, const nlohmann::ordered_json& json) {
  std::printf("requests   %d completed, %d failed in %.2f s: %.2f requests/s\n",
              static_cast<int>(result.num_completed), static_cast<int>(result.num_failed),
              result.seconds, json["requests_per_s"].get<double>());
  std::printf(
      "tokens     %d prompt (%d cached), %d generated: %.1f output, %.1f in all per second\n",
      static_cast<int>(result.prompt_tokens), static_cast<int>(result.cached_tokens),
      static_cast<int>(result.completion_tokens), json["output_tokens_per_s"].get<double>(),
      json["total_tokens_per_s"].get<double>());
  std::printf("%s\n", SummaryHeader("latency, ms").c_str());
  std::printf("%s\n", SummaryRow("time to first token", Summarize(result.ttft_ms)).c_str());
  std::printf("%s\n", SummaryRow("time per output token", Summarize(result.tpot_ms)).c_str());
  std::printf("%s\n", SummaryRow("inter-token latency", Summarize(result.itl_ms)).c_str());
  std::printf("%s\n", SummaryRow("end to end", Summarize(result.e2e_ms)).c_str());
}

int Serve(const ServeFlags& flags) {
  const auto channel = client::Connect(flags.target);
  const std::unique_ptr<v1::Inference::Stub> stub = v1::Inference::NewStub(channel);
  v1::GetModelResponse model;
  {
    grpc::ClientContext context;
    const grpc::Status status = stub->GetModel(&context, {}, &model);
    if (!status.ok()) return client::ReportFailure(status, flags.target);
  }
  const auto items = MakeWorkload(flags.workload, model.vocab_size(), model.max_model_len());
  if (!items.ok()) return Fail(std::string(items.status().message()));
  const bool show_progress = isatty(STDERR_FILENO) != 0;
  const Clock::time_point start = Clock::now();
  const auto records = RunLoad(*stub, *items, flags.load, [&](int64_t num_ended) {
    if (!show_progress) return;
    std::fprintf(stderr, "\r%5.1f s  %lld of %zu requests ended", Ms(Clock::now() - start) / 1000,
                 static_cast<long long>(num_ended), items->size());
  });
  if (show_progress) std::fprintf(stderr, "\r%60s\r", "");
  const ServeResult result = Evaluate(records);
  const nlohmann::ordered_json json = ToJson(result);
  Print(result, json);
  if (!flags.json_file.empty()) std::ofstream(flags.json_file) << json.dump(2) << "\n";
  if (result.num_failed == 0) return 0;
  return Fail(absl::StrCat(result.num_failed, " requests failed; the first: ",
                           client::StatusName(result.first_failure.error_code()), ": ",
                           result.first_failure.error_message()));
}

}  // namespace

Command AddServe(CLI::App& app) {
  CLI::App* command = app.add_subcommand("serve", "Load a running server over gRPC");
  const auto flags = std::make_shared<ServeFlags>();
  command->add_option("--target", flags->target, "HOST:PORT of the server")->capture_default_str();
  command->add_option("--request-rate", flags->load.request_rate,
                      "Requests per second, Poisson arrivals (default: all at once)");
  command->add_option("--max-concurrency", flags->load.max_concurrency,
                      "Requests in flight at most (default: unbounded)");
  command->add_option("--json", flags->json_file, "Write the results to this file");
  AddWorkloadFlags(*command, &flags->workload);
  return [flags] {
    flags->load.seed = flags->workload.seed;
    return Serve(*flags);
  };
}

}  // namespace quire::bench

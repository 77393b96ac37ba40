// quire-bench serve: loads a running server and prints latencies and throughput.

#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/command_line.h"
#include "tools/bench/commands.h"
#include "tools/bench/failure.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/result_file.h"
#include "tools/bench/run_header.h"
#include "tools/bench/serve/load.h"
#include "tools/bench/serve/serve_report.h"
#include "tools/bench/shown_progress.h"
#include "tools/bench/workload.h"
#include "tools/client/rpc.h"

namespace quire::bench {

namespace {

struct ServeFlags {
  std::string target = client::kDefaultTarget;
  WorkloadFlags workload;
  LoadOptions load;
  std::optional<uint64_t> seed;
  std::optional<std::string> json_file;
  const CLI::App* command = nullptr;
};

// What the server says of its model; an error (exit code 69) at once when none answers.
absl::StatusOr<v1::GetModelResponse> GetModel(v1::Inference::Stub& stub,
                                              const std::string& target) {
  constexpr auto kPatience = std::chrono::seconds(10);  // with a machine that does not answer
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  v1::GetModelResponse model;
  const grpc::Status status = stub.GetModel(&context, {}, &model);
  if (status.ok()) return model;
  const bool unreachable = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                           status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  const std::string why = client::DescribeFailure(status, target);
  if (!unreachable)
    return WithExitCode(kFailed, absl::UnknownError(absl::StrCat(target, ": ", why)));
  return WithExitCode(kUnavailable, absl::UnavailableError(
                                        absl::StrCat("no server answers at ", target, ": ", why)));
}

std::string ArrivalsText(const LoadOptions& load) {
  std::string text = load.request_rate > 0 ? absl::StrCat(load.request_rate, " a second (Poisson)")
                                           : std::string("all at once");
  if (load.max_concurrency > 0) {
    absl::StrAppend(&text, ", at most ", load.max_concurrency, " at a time");
  }
  return text;
}

nlohmann::ordered_json DescribeRun(const ServeFlags& flags, const v1::GetModelResponse& model,
                                   const std::vector<WorkItem>& items) {
  nlohmann::ordered_json json = RunJson("serve");
  json["target"] = flags.target;
  json["server_version"] = model.version();
  json["model"] = model.name();
  json["device"] = model.device();
  json["dtype"] = model.dtype();
  json["seed"] = flags.load.seed;
  json["workload"] = WorkloadJson(flags.workload, items);
  json["request_rate"] = flags.load.request_rate;
  json["max_concurrency"] = flags.load.max_concurrency;
  json["sampling"] = SamplingJson(flags.load.sampling);
  json["interrupted"] = Interrupted();
  return json;
}

void PrintRun(const ServeFlags& flags, const v1::GetModelResponse& model,
              const std::vector<WorkItem>& items) {
  Print({.command = "serve",
         .what = absl::StrCat(WorkloadText(flags.workload, items), ", ", ArrivalsText(flags.load)),
         .lines = {
             {"server", absl::StrCat(flags.target, ", quire-server ", model.version())},
             {"model", absl::StrCat(model.name(), " (", model.architecture(), "), ", model.dtype(),
                                    ", context of ", model.max_model_len(), " tokens")},
             {"device", model.device()},
             {"sampling", SamplingText(flags.load.sampling)},
             {"seed", SeedText(flags.load.seed)}}});
}

absl::Status Failure(const ServeReport& report) {
  if (report.num_failed == 0) return absl::OkStatus();
  return WithExitCode(kFailed, absl::UnknownError(absl::StrCat(
                                   report.num_failed, " requests failed; the first: ",
                                   client::StatusName(report.first_failure.error_code()), ": ",
                                   report.first_failure.error_message())));
}

absl::Status Serve(ServeFlags& flags) {
  RETURN_IF_ERROR(CheckNothingLeft(*flags.command));
  RETURN_IF_ERROR(CheckSampling(flags.load.sampling));
  if (std::isinf(flags.load.request_rate)) flags.load.request_rate = 0;  // as vLLM's spelling
  ASSIGN_OR_RETURN(const auto json_file, OpenResultFile("--json", flags.json_file));
  flags.load.seed = flags.workload.seed = ChooseSeed(flags.seed);
  const std::unique_ptr<v1::Inference::Stub> stub =
      v1::Inference::NewStub(client::Connect(flags.target));
  ASSIGN_OR_RETURN(const v1::GetModelResponse model, GetModel(*stub, flags.target));
  ASSIGN_OR_RETURN(const std::vector<WorkItem> items,
                   MakeWorkload(flags.workload, model.vocab_size(), model.max_model_len()));
  PrintRun(flags, model, items);
  std::vector<RequestRecord> records;
  {
    const InterruptibleRun interruptible;
    ShownProgress progress;
    records = RunLoad(*stub, items, flags.load, progress.get());
  }
  const ServeReport report = MakeServeReport(records);
  std::printf("%s%s", Interrupted() ? "interrupted; results so far:\n" : "",
              ToText(report).c_str());
  nlohmann::ordered_json json = DescribeRun(flags, model, items);
  json.update(ToJson(report));
  if (flags.workload.shared_prefix_len == 0) {
    WarnIfCached(report.prompt_tokens, report.cached_tokens);
  }
  if (json_file != nullptr) RETURN_IF_ERROR(json_file->Write(json.dump(2) + "\n"));
  return Failure(report);
}

}  // namespace

Command AddServe(CLI::App& app) {
  CLI::App* command = app.add_subcommand("serve", "Load a running server over gRPC");
  command->footer(
      "Examples:\n"
      "  quire-bench serve --num-prompts 64 --input-len 200 --output-len 100 --request-rate 8\n"
      "  quire-bench serve --target gpu-host:8000 --max-concurrency 32 --temperature 0.8 --top-p "
      "0.95\n"
      "  quire-bench serve --shared-prefix-len 100 --json result.json");
  const auto flags = std::make_shared<ServeFlags>();
  flags->command = command->allow_extras();
  command->add_option("--target", flags->target, "HOST:PORT of the server")->capture_default_str();
  command
      ->add_option("--request-rate", flags->load.request_rate,
                   "Requests per second, Poisson arrivals (default: all at once)")
      ->check(RealFrom(1e-6, std::numeric_limits<double>::infinity()))
      ->type_name("NUMBER");
  command
      ->add_option("--max-concurrency", flags->load.max_concurrency,
                   "Maximum of requests in flight (default: unbounded)")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N");
  AddJsonFlag(*command, &flags->json_file);
  AddWorkloadFlags(*command, &flags->workload);
  AddSeedFlag(*command, &flags->seed);
  AddSamplingFlags(*command, &flags->load.sampling);
  AddIgnoreEosFlag(*command, &flags->load.sampling);
  return [flags] { return Finish(Serve(*flags)); };
}

}  // namespace quire::bench

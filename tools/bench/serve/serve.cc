// quire-bench serve: loads a running server and prints latencies and throughput.

#include <cstdio>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/commands.h"
#include "tools/bench/failure.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/load/load.h"
#include "tools/bench/result_file.h"
#include "tools/bench/run_header.h"
#include "tools/bench/serve/serve_flags.h"
#include "tools/bench/serve/serve_run.h"
#include "tools/bench/shown_progress.h"

namespace quire::bench {

namespace {

// What the server says of its model; an error (exit code 69) at once when none answers.
absl::StatusOr<ServedModel> GetModel(const ServerAddress& server, LoadBackend& backend) {
  absl::StatusOr<std::string> body = Fetch(server, backend, backend.ModelRequest());
  if (absl::IsUnavailable(body.status())) {
    return WithExitCode(
        kUnavailable, absl::UnavailableError(absl::StrCat("no server answers at ", server.authority,
                                                          ": ", body.status().message())));
  }
  absl::Status status = body.status();
  if (status.ok()) {
    absl::StatusOr<ServedModel> model = backend.ReadModel(*body);
    if (model.ok()) return model;
    status = model.status();
  }
  return WithExitCode(kFailed,
                      absl::UnknownError(absl::StrCat(server.authority, ": ", status.message())));
}

nlohmann::ordered_json DescribeRun(const ServeFlags& flags, const ServedModel& model,
                                   const std::vector<WorkItem>& items) {
  nlohmann::ordered_json json = RunJson("serve");
  json["date"] = absl::FormatTime("%Y%m%d-%H%M%S", absl::Now(), absl::UTCTimeZone());
  json["backend"] = flags.backend;
  json["endpoint_type"] = flags.backend;
  json["target"] = flags.target;
  json["label"] =
      flags.label.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(flags.label);
  json["model_id"] = model.name;
  for (const auto& [label, text] : model.lines) json["served"][label] = text;
  json["num_prompts"] = items.size();
  json["seed"] = flags.load.seed;
  json["workload"] = DatasetJson(flags.dataset, items);
  json["request_rate"] = flags.arrivals.rate > 0 ? nlohmann::ordered_json(flags.arrivals.rate)
                                                 : nlohmann::ordered_json("inf");
  json["burstiness"] = flags.arrivals.burstiness;
  if (!flags.arrivals.ramp.empty()) {
    json["ramp_up_strategy"] = flags.arrivals.ramp;
    json["ramp_up_start_rps"] = flags.arrivals.ramp_start;
    json["ramp_up_end_rps"] = flags.arrivals.ramp_end;
  }
  json["max_concurrency"] = flags.load.max_concurrency > 0
                                ? nlohmann::ordered_json(flags.load.max_concurrency)
                                : nlohmann::ordered_json();
  json["sampling"] = SamplingJson(flags.server.sampling);
  for (const auto& [key, value] : flags.metadata) json[key] = value;
  json["interrupted"] = Interrupted();
  return json;
}

}  // namespace

absl::StatusOr<ServedTarget> OpenTarget(const ServeFlags& flags) {
  absl::StatusOr<ServerAddress> server = FindServer(flags.target);
  if (!server.ok()) return WithExitCode(kUnavailable, server.status());
  ServedTarget target = {.address = *std::move(server),
                         .backend = MakeLoadBackend(flags.backend, flags.server),
                         .model = {}};
  ASSIGN_OR_RETURN(target.model, GetModel(target.address, *target.backend));
  return target;
}

absl::Status WarmUp(const ServeFlags& flags, const ServedTarget& target) {
  if (flags.num_warmups == 0) return absl::OkStatus();
  DatasetFlags others = flags.dataset;  // whose prompts are not those of the load
  others.random.seed += 1;
  others.random.num_prompts = flags.num_warmups;
  ASSIGN_OR_RETURN(const std::vector<WorkItem> items,
                   MakeDataset(others, target.model.vocab_size, target.model.max_model_len));
  RunLoad(target.address, *target.backend, items, std::vector<double>(items.size(), 0.0),
          {.max_concurrency = 1},
          /*progress=*/nullptr);
  return absl::OkStatus();
}

LoadResult RunServedLoad(const ServeFlags& flags, const ServedTarget& target,
                         const std::vector<WorkItem>& items) {
  const std::vector<double> due =
      DrawArrivals(flags.arrivals, static_cast<int64_t>(items.size()), flags.load.seed);
  ShownProgress progress;
  return RunLoad(target.address, *target.backend, items, due, flags.load, progress.get());
}

nlohmann::ordered_json ResultJson(const ServeFlags& flags, const ServedTarget& target,
                                  const std::vector<WorkItem>& items, const LoadResult& result,
                                  const ServeReport& report) {
  nlohmann::ordered_json json = DescribeRun(flags, target.model, items);
  json.update(ToJson(report, result.effort, flags.report));
  if (flags.save_detailed) json.update(DetailedJson(result.records));
  return json;
}

void WarnOfDoubts(const ServeFlags& flags, const ServeReport& report, const ClientEffort& effort) {
  const bool repeats =
      flags.dataset.name == "prefix_repetition" || flags.dataset.random.shared_prefix_len > 0;
  if (!repeats) WarnIfCached(report.prompt_tokens, report.cached_tokens);
  const std::string warning = ClientWarning(effort);
  if (!warning.empty()) Warn(warning);
}

// As vLLM's benchmark names it: backend, rate, concurrency, model and time.
absl::StatusOr<std::unique_ptr<ResultFile>> OpenSavedResult(const ServeFlags& flags,
                                                            const ServedTarget& target,
                                                            const std::string& load) {
  if (!flags.save_result) return std::unique_ptr<ResultFile>();
  std::string name = flags.result_filename;
  if (name.empty()) {
    const std::string& model = target.model.name;
    const std::string base = model.substr(model.find_last_of('/') + 1);
    name =
        absl::StrCat(flags.label.empty() ? flags.backend : flags.label, "-", load, "-",
                     absl::StrReplaceAll(base, {{"/", "_"}}), "-",
                     absl::FormatTime("%Y%m%d-%H%M%S", absl::Now(), absl::UTCTimeZone()), ".json");
  }
  return OpenResultFile(
      "--result-dir", flags.result_dir.empty() ? name : absl::StrCat(flags.result_dir, "/", name));
}

namespace {

// "8qps-concurrency4", in the name of a file.
std::string LoadName(const ServeFlags& flags) {
  const std::string concurrency = flags.load.max_concurrency > 0
                                      ? absl::StrCat("-concurrency", flags.load.max_concurrency)
                                      : "";
  return absl::StrCat(flags.arrivals.rate > 0 ? absl::StrCat(flags.arrivals.rate) : "inf", "qps",
                      concurrency);
}

absl::Status Failure(const ServeReport& report) {
  if (report.num_failed == 0) return absl::OkStatus();
  return WithExitCode(
      kFailed, absl::UnknownError(absl::StrCat(
                   report.num_failed, " requests failed; the first: ", report.first_problem)));
}

void PrintRun(const ServeFlags& flags, const ServedTarget& target,
              const std::vector<WorkItem>& items) {
  std::string arrivals = ArrivalsText(flags.arrivals);
  if (flags.load.max_concurrency > 0) {
    absl::StrAppend(&arrivals, ", at most ", flags.load.max_concurrency, " at a time");
  }
  RunHeader header = {.command = "serve",
                      .what = absl::StrCat(DatasetText(flags.dataset, items), ", ", arrivals),
                      .lines = {{"target", absl::StrCat(flags.target, ", ", flags.backend)}}};
  header.lines.insert(header.lines.end(), target.model.lines.begin(), target.model.lines.end());
  header.lines.emplace_back("sampling", SamplingText(flags.server.sampling));
  header.lines.emplace_back("seed", SeedText(flags.load.seed));
  Print(header);
}

absl::Status Report(const ServeFlags& flags, const ServedTarget& target,
                    const std::vector<WorkItem>& items, const LoadResult& result,
                    const std::vector<ResultFile*>& files) {
  const ServeReport report = MakeServeReport(result, flags.report);
  std::printf("%s%s", Interrupted() ? "interrupted; results so far:\n" : "",
              ToText(report, flags.report).c_str());
  WarnOfDoubts(flags, report, result.effort);
  for (ResultFile* file : files) {
    if (file == nullptr) continue;
    const nlohmann::ordered_json json = ResultJson(flags, target, items, result, report);
    RETURN_IF_ERROR(file->Write(json.dump(2) + "\n"));
  }
  return Failure(report);
}

absl::Status Serve(ServeFlags& flags) {
  RETURN_IF_ERROR(CheckServeFlags(&flags));
  ASSIGN_OR_RETURN(const auto json_file, OpenResultFile("--json", flags.json_file));
  ASSIGN_OR_RETURN(const ServedTarget target, OpenTarget(flags));
  ASSIGN_OR_RETURN(const auto saved, OpenSavedResult(flags, target, LoadName(flags)));
  ASSIGN_OR_RETURN(const std::vector<WorkItem> items,
                   MakeDataset(flags.dataset, target.model.vocab_size, target.model.max_model_len));
  PrintRun(flags, target, items);
  RETURN_IF_ERROR(WarmUp(flags, target));
  LoadResult result;
  {
    const InterruptibleRun interruptible;
    result = RunServedLoad(flags, target, items);
  }
  return Report(flags, target, items, result, {json_file.get(), saved.get()});
}

}  // namespace

Command AddServe(CLI::App& app) {
  CLI::App* command = app.add_subcommand("serve", "Load a running server, ours or another");
  command->footer(
      "Examples:\n"
      "  quire-bench serve --num-prompts 64 --input-len 200 --output-len 100 --request-rate 8\n"
      "  quire-bench serve --target gpu-host:8000 --max-concurrency 32 --temperature 0.8 --top-p "
      "0.95\n"
      "  quire-bench serve --backend openai --base-url http://127.0.0.1:8080 --text-prompts\n"
      "  quire-bench serve --shared-prefix-len 100 --json result.json");
  const auto flags = std::make_shared<ServeFlags>();
  AddServeFlags(*command, flags.get());
  return [flags] { return Finish(Serve(*flags)); };
}

}  // namespace quire::bench

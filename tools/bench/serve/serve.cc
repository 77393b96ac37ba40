// quire-bench serve: loads a running server and prints latencies and throughput.

#include <cstdio>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/commands.h"
#include "tools/bench/failure.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/result_file.h"
#include "tools/bench/run_header.h"
#include "tools/bench/serve/request_file.h"
#include "tools/bench/serve/serve_flags.h"
#include "tools/bench/serve/serve_run.h"
#include "tools/bench/serve/turn_report.h"
#include "tools/cli/counted.h"

namespace quire::bench {

namespace {

// "8qps-concurrency4", in the name of a file.
std::string LoadName(const ServeFlags& flags) {
  const std::string concurrency = flags.load.max_concurrency > 0
                                      ? absl::StrCat("-concurrency", flags.load.max_concurrency)
                                      : "";
  return absl::StrCat(flags.arrivals.rate > 0 ? absl::StrCat(flags.arrivals.rate) : "inf", "qps",
                      concurrency);
}

void PrintRun(const ServeFlags& flags, const ServedTarget& target,
              const std::vector<WorkItem>& items) {
  std::string arrivals =
      flags.dataset.is_timed()
          ? absl::StrCat("at the trace's times, ", flags.dataset.trace_speedup, " times as fast")
          : ArrivalsText(flags.arrivals);
  if (flags.load.max_concurrency > 0) {
    absl::StrAppend(&arrivals, ", at most ", flags.load.max_concurrency, " at a time");
  }
  RunHeader header =
      TargetHeader("serve", absl::StrCat(DatasetText(flags.dataset, items), ", ", arrivals), flags,
                   target.model);
  header.lines.emplace_back("sampling", SamplingText(flags.server.sampling));
  header.lines.emplace_back("seed", SeedText(flags.load.seed));
  Print(header);
}

// Not all of OpenAI's servers take token ids, and what they say of them is of no help.
std::string Advice(const ServeFlags& flags, const std::vector<WorkItem>& items,
                   const ServeReport& report) {
  const bool sends_ids = flags.backend == "openai" && !items.empty() && !items[0].prompt.empty();
  const bool is_refused = absl::StartsWith(report.first_problem, "HTTP ");
  if (!sends_ids || !is_refused || report.num_completed > 0) return "";
  return "; if the server takes no token ids as prompts, add --text-prompts";
}

absl::Status Failure(const ServeFlags& flags, const std::vector<WorkItem>& items,
                     const ServeReport& report) {
  if (report.num_failed == 0) return absl::OkStatus();
  return WithExitCode(kFailed,
                      absl::UnknownError(absl::StrCat(Counted(report.num_failed, "request"),
                                                      " failed; the first: ", report.first_problem,
                                                      Advice(flags, items, report))));
}

absl::Status Serve(ServeFlags& flags) {
  RETURN_IF_ERROR(CheckServeFlags(&flags));
  ASSIGN_OR_RETURN(const auto json_file, OpenResultFile("--json", flags.json_file));
  ASSIGN_OR_RETURN(const auto dataset_file, OpenResultFile("--save-dataset", flags.dataset_file));
  ASSIGN_OR_RETURN(const ServedTarget target, OpenTarget(flags));
  ASSIGN_OR_RETURN(const SavedResult saved, OpenSavedResult(flags, target, LoadName(flags)));
  ASSIGN_OR_RETURN(const std::vector<WorkItem> items,
                   MakeDataset(flags.dataset, target.model.vocab_size, target.model.max_model_len));
  PrintRun(flags, target, items);
  const std::vector<double> due = DueTimes(flags.dataset, flags.arrivals, items);
  if (dataset_file != nullptr) RETURN_IF_ERROR(dataset_file->Write(RequestFileText(items, due)));
  RETURN_IF_ERROR(WarmUp(flags, target));
  if (flags.flushes_cache) RETURN_IF_ERROR(FlushPrefixCache(target));
  LoadResult result;
  {
    const InterruptibleRun interruptible;
    result = RunServedLoad(flags, target, items, due);
  }
  const ServeReport report = MakeServeReport(result, flags.report);
  std::printf("%s%s%s", Interrupted() ? "interrupted; results so far:\n" : "",
              ToText(report, flags.report).c_str(),
              ToText(MakeTurnReports(result.records, flags.report)).c_str());
  WarnOfDoubts(flags, items, report, result.effort);
  RETURN_IF_ERROR(
      WriteResult(ResultJson(flags, target, items, result, report), json_file.get(), saved));
  return Failure(flags, items, report);
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

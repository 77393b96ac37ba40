// quire-bench serve: loads a running server and prints latencies and throughput.

#include <cstdio>
#include <fstream>
#include <iterator>
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
#include "tools/bench/serve/prompt_words.h"
#include "tools/bench/serve/request_file.h"
#include "tools/bench/serve/serve_flags.h"
#include "tools/bench/serve/turn_report.h"
#include "tools/bench/shown_progress.h"

namespace quire::bench {

namespace {

void PrintRun(const ServeFlags& flags, const ServedModel& model,
              const std::vector<WorkItem>& items) {
  std::string arrivals =
      flags.dataset.is_timed()
          ? absl::StrCat("at the trace's times, ", flags.dataset.trace_speedup, " times as fast")
          : ArrivalsText(flags.arrivals);
  if (flags.load.max_concurrency > 0) {
    absl::StrAppend(&arrivals, ", at most ", flags.load.max_concurrency, " at a time");
  }
  RunHeader header = {.command = "serve",
                      .what = absl::StrCat(DatasetText(flags.dataset, items), ", ", arrivals),
                      .lines = {{"target", absl::StrCat(flags.target, ", ", flags.backend)}}};
  header.lines.insert(header.lines.end(), model.lines.begin(), model.lines.end());
  header.lines.emplace_back("sampling", SamplingText(flags.server.sampling));
  header.lines.emplace_back("seed", SeedText(flags.load.seed));
  Print(header);
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
  json["flushed_cache"] = flags.flushes_cache;
  for (const auto& [key, value] : flags.metadata) json[key] = value;
  json["interrupted"] = Interrupted();
  return json;
}

// As vLLM's benchmark names it: backend, rate, concurrency, model and time.
std::string ResultPath(const ServeFlags& flags, const ServedModel& model) {
  std::string name = flags.result_filename;
  if (name.empty()) {
    const std::string concurrency = flags.load.max_concurrency > 0
                                        ? absl::StrCat("-concurrency", flags.load.max_concurrency)
                                        : "";
    const std::string rate =
        flags.arrivals.rate > 0 ? absl::StrCat(flags.arrivals.rate) : std::string("inf");
    const std::string base = model.name.substr(model.name.find_last_of('/') + 1);
    name =
        absl::StrCat(flags.label.empty() ? flags.backend : flags.label, "-", rate, "qps",
                     concurrency, "-", absl::StrReplaceAll(base, {{"/", "_"}}), "-",
                     absl::FormatTime("%Y%m%d-%H%M%S", absl::Now(), absl::UTCTimeZone()), ".json");
  }
  return flags.result_dir.empty() ? name : absl::StrCat(flags.result_dir, "/", name);
}

// What a file of lines has that another one comes after.
std::string EarlierLines(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!text.empty() && text.back() != '\n') text.push_back('\n');
  return text;
}

// Where the server does not say how many there were, a tokenizer does.
void CountTokensOf(const DatasetFlags& flags, const std::vector<WorkItem>& items,
                   std::vector<RequestRecord>* records) {
  if (flags.tokenizer == nullptr) return;
  for (size_t i = 0; i < items.size(); ++i) {
    RequestRecord& record = (*records)[i];
    if (record.outcome != Outcome::kCompleted || record.has_usage) continue;
    record.completion_tokens = CountTokens(*flags.tokenizer, record.text);
    if (record.prompt_tokens == 0) {
      record.prompt_tokens = CountTokens(*flags.tokenizer, items[i].text);
    }
  }
}

absl::Status WarmUp(const ServeFlags& flags, const ServerAddress& server,
                    const LoadBackend& backend, const ServedModel& model) {
  if (flags.num_warmups == 0) return absl::OkStatus();
  DatasetFlags others = flags.dataset;  // whose prompts are not those of the load
  others.random.seed += 1;
  others.random.num_prompts = flags.num_warmups;
  ASSIGN_OR_RETURN(std::vector<WorkItem> items,
                   MakeDataset(others, model.vocab_size, model.max_model_len));
  std::erase_if(items, [](const WorkItem& item) { return item.continues; });
  RunLoad(server, backend, items, std::vector<double>(items.size(), 0.0), {.max_concurrency = 1},
          /*progress=*/nullptr);
  return absl::OkStatus();
}

absl::Status Failure(const ServeReport& report) {
  if (report.num_failed == 0) return absl::OkStatus();
  return WithExitCode(
      kFailed, absl::UnknownError(absl::StrCat(
                   report.num_failed, " requests failed; the first: ", report.first_problem)));
}

absl::Status Report(const ServeFlags& flags, const ServedModel& model,
                    const std::vector<WorkItem>& items, const LoadResult& result,
                    ResultFile* json_file, ResultFile* saved) {
  const ServeReport report = MakeServeReport(result, flags.report);
  const std::vector<TurnReport> turns = MakeTurnReports(result.records, flags.report);
  std::printf("%s%s%s", Interrupted() ? "interrupted; results so far:\n" : "",
              ToText(report, flags.report).c_str(), ToText(turns).c_str());
  nlohmann::ordered_json json = DescribeRun(flags, model, items);
  json.update(ToJson(report, result.effort, flags.report));
  if (turns.size() > 1) json["turns"] = ToJson(turns);
  if (flags.save_detailed) json.update(DetailedJson(result.records));
  if (!SharesPrefixes(flags.dataset, items)) {
    WarnIfCached(report.prompt_tokens, report.cached_tokens);
  }
  const std::string warning = ClientWarning(result.effort);
  if (!warning.empty()) Warn(warning);
  if (json_file != nullptr) RETURN_IF_ERROR(json_file->Write(json.dump(2) + "\n"));
  if (saved != nullptr) {
    const std::string text =
        flags.append_result
            ? absl::StrCat(EarlierLines(ResultPath(flags, model)), json.dump(), "\n")
            : json.dump(2) + "\n";
    RETURN_IF_ERROR(saved->Write(text));
  }
  return Failure(report);
}

absl::Status Serve(ServeFlags& flags) {
  RETURN_IF_ERROR(CheckServeFlags(&flags));
  ASSIGN_OR_RETURN(const auto json_file, OpenResultFile("--json", flags.json_file));
  ASSIGN_OR_RETURN(const auto dataset_file, OpenResultFile("--save-dataset", flags.dataset_file));
  absl::StatusOr<ServerAddress> server = FindServer(flags.target);
  if (!server.ok()) return WithExitCode(kUnavailable, server.status());
  const std::unique_ptr<LoadBackend> backend = MakeLoadBackend(flags.backend, flags.server);
  ASSIGN_OR_RETURN(const ServedModel model, GetModel(*server, *backend, flags.ready_seconds));
  std::unique_ptr<ResultFile> saved;
  if (flags.save_result) {
    ASSIGN_OR_RETURN(saved, OpenResultFile("--result-dir", ResultPath(flags, model)));
  }
  ASSIGN_OR_RETURN(const std::vector<WorkItem> items,
                   MakeDataset(flags.dataset, model.vocab_size, model.max_model_len));
  PrintRun(flags, model, items);
  const std::vector<double> due = DueTimes(flags.dataset, flags.arrivals, items);
  if (dataset_file != nullptr) RETURN_IF_ERROR(dataset_file->Write(RequestFileText(items, due)));
  RETURN_IF_ERROR(WarmUp(flags, *server, *backend, model));
  if (flags.flushes_cache) RETURN_IF_ERROR(FlushPrefixCache(*server, *backend));
  LoadResult result;
  {
    const InterruptibleRun interruptible;
    ShownProgress progress;
    result = RunLoad(*server, *backend, items, due, flags.load, progress.get());
  }
  CountTokensOf(flags.dataset, items, &result.records);
  return Report(flags, model, items, result, json_file.get(), saved.get());
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

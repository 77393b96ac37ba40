#include "tools/bench/serve/serve_run.h"

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/json/parse_json.h"
#include "kernels/base/clock.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/failure.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/json_values.h"
#include "tools/bench/run_header.h"
#include "tools/bench/serve/prompt_words.h"
#include "tools/bench/serve/turn_report.h"
#include "tools/bench/shown_progress.h"

namespace quire::bench {

namespace {

// As vLLM's benchmark has it: "20261129-160000".
std::string DateText() { return absl::FormatTime("%Y%m%d-%H%M%S", WallNow(), absl::UTCTimeZone()); }

nlohmann::ordered_json DescribeRun(const ServeFlags& flags, const ServedModel& model,
                                   const std::vector<WorkItem>& items) {
  nlohmann::ordered_json json = TargetJson("serve", flags, model);
  json["date"] = DateText();
  json["endpoint_type"] = flags.backend;
  json["label"] =
      flags.label.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(flags.label);
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
  const std::string& extra_body = flags.server.extra_body;
  json["extra_body"] =
      extra_body.empty() ? nlohmann::ordered_json() : ParseJson<nlohmann::ordered_json>(extra_body);
  json["flushed_cache"] = flags.flushes_cache;
  for (const auto& [key, value] : flags.metadata) json[key] = value;
  json["interrupted"] = Interrupted();
  return json;
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
    if (record.outcome != Outcome::kCompleted) continue;
    if (!record.is_counted) {
      record.completion_tokens = CountTokens(*flags.tokenizer, record.text);
      record.is_counted = true;
    }
    if (record.prompt_tokens == 0) {
      record.prompt_tokens = CountTokens(*flags.tokenizer, items[i].text);
    }
  }
}

}  // namespace

absl::Status WarmUp(const ServeFlags& flags, const ServedTarget& target) {
  if (flags.num_warmups == 0) return absl::OkStatus();
  DatasetFlags others = flags.dataset;  // whose prompts are not those of the load
  others.random.seed += 1;
  others.random.num_prompts = flags.num_warmups;
  ASSIGN_OR_RETURN(std::vector<WorkItem> items,
                   MakeDataset(others, target.model.vocab_size, target.model.max_model_len));
  std::erase_if(items, [](const WorkItem& item) { return item.continues; });
  RunLoad(target.address, *target.backend, items, std::vector<double>(items.size(), 0.0),
          {.max_concurrency = 1}, /*progress=*/nullptr);
  return absl::OkStatus();
}

LoadResult RunServedLoad(const ServeFlags& flags, const ServedTarget& target,
                         const std::vector<WorkItem>& items, const std::vector<double>& due) {
  ShownProgress progress;
  LoadResult result =
      RunLoad(target.address, *target.backend, items, due, flags.load, progress.get());
  CountTokensOf(flags.dataset, items, &result.records);
  return result;
}

nlohmann::ordered_json ResultJson(const ServeFlags& flags, const ServedTarget& target,
                                  const std::vector<WorkItem>& items, const LoadResult& result,
                                  const ServeReport& report) {
  nlohmann::ordered_json json = DescribeRun(flags, target.model, items);
  json.update(ToJson(report, result.effort, flags.report));
  const std::vector<TurnReport> turns = MakeTurnReports(result.records, flags.report);
  if (turns.size() > 1) json["turns"] = ToJson(turns);
  if (flags.save_detailed) json.update(DetailedJson(result.records));
  return json;
}

void WarnOfDoubts(const ServeFlags& flags, const std::vector<WorkItem>& items,
                  const ServeReport& report, const ClientEffort& effort, bool is_later) {
  if (!SharesPrefixes(flags.dataset, items)) {
    WarnIfCached(report.prompt_tokens, report.cached_tokens);
  }
  if (report.num_uncounted > 0 && !is_later) {
    Warn(absl::StrCat("the server does not say how many tokens ", report.num_uncounted,
                      " requests have: their prompts were not counted, and of answers the pieces "
                      "of text; --tokenizer FOLDER counts both"));
  }
  // An answer that a schema allows ends where the schema says.
  if (report.num_stopped > 0 && flags.server.sampling.ignore_eos &&
      flags.server.json_schema.empty() && !is_later) {
    Warn(absl::StrCat(report.num_stopped, " of ", report.num_completed,
                      " answers ended before they were as long as was asked for: the server does "
                      "not know ignore_eos; forbid its end token, as by --extra-body "
                      "'{\"logit_bias\": {\"ID\": -100}}'"));
  }
  const std::string warning = ClientWarning(effort);
  if (!warning.empty()) Warn(warning);
}

// As vLLM's benchmark names it: backend, rate, concurrency, model and time.
absl::StatusOr<SavedResult> OpenSavedResult(const ServeFlags& flags, const ServedTarget& target,
                                            const std::string& load) {
  SavedResult saved;
  if (!flags.save_result) return saved;
  std::string name = flags.result_filename;
  if (name.empty()) {
    const std::string& model = target.model.name;
    const std::string base = model.substr(model.find_last_of('/') + 1);
    name = absl::StrCat(flags.label.empty() ? flags.backend : flags.label, "-", load, "-", base,
                        "-", DateText(), ".json");
  }
  const std::string path =
      flags.result_dir.empty() ? name : absl::StrCat(flags.result_dir, "/", name);
  ASSIGN_OR_RETURN(saved.file, OpenResultFile("--result-dir", path));
  if (flags.append_result) saved.earlier = path;
  return saved;
}

absl::Status WriteResult(const nlohmann::ordered_json& result, ResultFile* json_file,
                         const SavedResult& saved) {
  RETURN_IF_ERROR(WriteJson(result, json_file));
  if (saved.file == nullptr || saved.earlier.empty()) return WriteJson(result, saved.file.get());
  return saved.file->Write(absl::StrCat(EarlierLines(saved.earlier), LineOf(result), "\n"));
}

}  // namespace quire::bench

// quire-bench sweep: loads of a running server, each heavier than the last, until it is too much.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/command_line.h"
#include "tools/bench/commands.h"
#include "tools/bench/failure.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/json_values.h"
#include "tools/bench/run_header.h"
#include "tools/bench/serve/serve_run.h"
#include "tools/bench/statistics.h"
#include "tools/bench/sweep/sweep_search.h"

namespace quire::bench {

namespace {

struct SweepFlags {
  ServeFlags serve;
  SweepRules rules;
  std::string by = "request-rate";
  double point_seconds = 10;
};

constexpr double kFewestRequests = 30;  // of a point
constexpr double kRequestsOfAPlace = 8;

absl::Status CheckSweepFlags(SweepFlags* flags) {
  ServeFlags& serve = flags->serve;
  flags->rules.by_concurrency = flags->by == "concurrency";
  RETURN_IF_ERROR(CheckServeFlags(&serve));
  if (serve.arrivals.rate > 0 || !serve.arrivals.ramp.empty()) {
    return UsageError(
        "--request-rate and ramps: a sweep has rates of its own; give --from, --to or --values");
  }
  if (serve.dataset.is_timed()) {
    return UsageError(
        "--trace-file: a trace has times of its own; a sweep sends the lines of "
        "--dataset-name custom at its own rates");
  }
  if (serve.dataset_file.has_value()) {
    return UsageError("--save-dataset: each load of a sweep has prompts of its own; use serve");
  }
  if (flags->rules.by_concurrency && serve.load.max_concurrency > 0) {
    return UsageError(
        "--max-concurrency: with --by concurrency the sweep chooses it; give --from, --to or "
        "--values");
  }
  if (flags->rules.by_concurrency) flags->rules.to = std::min(flags->rules.to, 1e6);
  if (flags->rules.from > flags->rules.to) return UsageError("--from is more than --to");
  for (double* load : {&flags->rules.from, &flags->rules.to}) {
    if (flags->rules.by_concurrency) *load = std::max(1.0, std::round(*load));
  }
  for (double& load : flags->rules.values) {
    if (flags->rules.by_concurrency && load != std::floor(load)) {
      return UsageError(
          absl::StrCat("--values: ", load, " requests at a time are no whole number"));
    }
  }
  serve.report.from_due = !flags->rules.by_concurrency;
  return absl::OkStatus();
}

// The flags of one load: other prompts in each, so that none is in the prefix cache.
ServeFlags FlagsOf(const SweepFlags& flags, double load, size_t index) {
  ServeFlags serve = flags.serve;
  serve.load.seed = serve.dataset.random.seed = flags.serve.load.seed + 2 * index;
  if (flags.rules.by_concurrency) {
    serve.load.max_concurrency = static_cast<int64_t>(load);
  } else {
    serve.arrivals.rate = load;
  }
  if (serve.command->count("--num-prompts") == 0) {
    const double enough =
        load * (flags.rules.by_concurrency ? kRequestsOfAPlace : flags.point_seconds);
    serve.dataset.random.num_prompts =
        static_cast<int64_t>(std::clamp(std::ceil(enough), kFewestRequests, 1e6));
  }
  return serve;
}

std::string HeaderRow() {
  return absl::StrFormat("%-18s %8s %11s %11s %9s %9s %9s %9s  %s", "load", "requests",
                         "achieved/s", "tokens/s", "ttft p50", "ttft p99", "itl p50", "itl p99",
                         "verdict");
}

// A percentile as a cell of the table.
std::string PercentileText(const Distribution& samples, double percent, int decimals) {
  if (samples.count() == 0) return "-";
  return absl::StrFormat("%.*f", decimals, samples.Percentile(percent));
}

std::string PointRow(const SweepPoint& point, const ServeReport& report, const SweepRules& rules,
                     const std::string& verdict) {
  const Distribution ttft(report.ttft_ms), itl(report.itl_ms);
  return absl::StrFormat("%-18s %8d %11.2f %11.1f %9s %9s %9s %9s  %s", LoadText(point.load, rules),
                         report.num_completed, point.achieved_rate, point.output_throughput,
                         PercentileText(ttft, 50, 1), PercentileText(ttft, 99, 1),
                         PercentileText(itl, 50, 2), PercentileText(itl, 99, 2), verdict);
}

class Sweep {
 public:
  Sweep(const SweepFlags& flags, const ServedTarget& target) : flags_(flags), target_(target) {}

  // Runs loads until the search is over, or it is interrupted.
  absl::Status Run() {
    std::printf("%s\n", HeaderRow().c_str());
    while (const std::optional<double> load = NextLoad(points_, flags_.rules)) {
      RETURN_IF_ERROR(RunPoint(*load));
      if (Interrupted()) break;
    }
    return absl::OkStatus();
  }

  nlohmann::ordered_json Json() const {
    const ServeFlags& serve = flags_.serve;
    nlohmann::ordered_json json = TargetJson("sweep", serve, target_.model);
    if (!serve.label.empty()) json["label"] = serve.label;
    json["sampling"] = SamplingJson(serve.server.sampling);
    json["seed"] = serve.load.seed;
    json["by"] = flags_.by;
    for (const auto& [metric, most_ms] : serve.report.goodput) json["goodput"][metric] = most_ms;
    json["interrupted"] = Interrupted();
    const Saturation found = FindSaturation(points_, flags_.rules);
    json["saturation"] = {{"last_good", OrNull(found.last_good)},
                          {"first_bad", OrNull(found.first_bad)},
                          {"sentence", found.sentence}};
    json["points"] = nlohmann::ordered_json::array();
    for (size_t i = 0; i < points_.size(); ++i) {
      nlohmann::ordered_json point = {{"load", points_[i].load},
                                      {"offered_rate", points_[i].offered_rate},
                                      {"achieved_rate", points_[i].achieved_rate},
                                      {"good_share", OrNull(points_[i].good_share)},
                                      {"verdict", VerdictOf(i)}};
      point.update(results_[i]);
      json["points"].push_back(std::move(point));
    }
    return json;
  }

  std::string Sentence() const { return FindSaturation(points_, flags_.rules).sentence; }

 private:
  absl::Status RunPoint(double load) {
    const ServeFlags serve = FlagsOf(flags_, load, points_.size());
    ASSIGN_OR_RETURN(
        const std::vector<WorkItem> items,
        MakeDataset(serve.dataset, target_.model.vocab_size, target_.model.max_model_len));
    if (serve.flushes_cache) RETURN_IF_ERROR(FlushPrefixCache(target_));
    const LoadResult result =
        RunServedLoad(serve, target_, items, DueTimes(serve.dataset, serve.arrivals, items));
    if (Interrupted()) return absl::OkStatus();  // half a point is none
    const ServeReport report = MakeServeReport(result, serve.report);
    if (report.num_completed == 0) {
      return WithExitCode(kFailed, absl::UnknownError(absl::StrCat(
                                       "no request of ", LoadText(load, flags_.rules),
                                       " completed; the first: ", report.first_problem)));
    }
    points_.push_back(MakePoint(load, result, report, serve.report));
    results_.push_back(ResultJson(serve, target_, items, result, report));
    std::printf(
        "%s\n",
        PointRow(points_.back(), report, flags_.rules, VerdictOf(points_.size() - 1)).c_str());
    WarnOfDoubts(serve, items, report, result.effort, /*is_later=*/points_.size() > 1);
    return absl::OkStatus();
  }

  std::string VerdictOf(size_t index) const {
    const std::string why = WhyTooMuch(points_[index], points_, flags_.rules);
    return why.empty() ? "good" : absl::StrCat("too much: ", why);
  }

  const SweepFlags& flags_;
  const ServedTarget& target_;
  std::vector<SweepPoint> points_;
  std::vector<nlohmann::ordered_json> results_;  // of each
};

absl::Status RunSweep(SweepFlags& flags) {
  RETURN_IF_ERROR(CheckSweepFlags(&flags));
  ASSIGN_OR_RETURN(const auto json_file, OpenResultFile("--json", flags.serve.json_file));
  ASSIGN_OR_RETURN(const ServedTarget target, OpenTarget(flags.serve));
  ASSIGN_OR_RETURN(const SavedResult saved, OpenSavedResult(flags.serve, target, "sweep"));
  RunHeader header = TargetHeader("sweep",
                                  flags.rules.by_concurrency ? "more and more requests at a time"
                                                             : "more and more requests per second",
                                  flags.serve, target.model);
  header.lines.emplace_back("sampling", SamplingText(flags.serve.server.sampling));
  header.lines.emplace_back("seed", SeedText(flags.serve.load.seed));
  Print(header);
  RETURN_IF_ERROR(WarmUp(flags.serve, target));
  const InterruptibleRun interruptible;
  Sweep sweep(flags, target);
  absl::Status status = sweep.Run();
  std::printf("\n%s%s\n", Interrupted() ? "interrupted; results so far: " : "",
              sweep.Sentence().c_str());
  RETURN_IF_ERROR(WriteResult(sweep.Json(), json_file.get(), saved));
  return status;
}

void AddSearchFlags(CLI::App& command, SweepFlags* flags) {
  FlagGroup add(command, "Search");
  add.OneOf("--by", &flags->by, {"request-rate", "concurrency"},
            "What grows: request-rate (open loop) or concurrency (closed loop)")
      ->capture_default_str();
  add.Real("--from", &flags->rules.from, 1e-3, 1e6,
           "The first load: requests per second, or at a time")
      ->capture_default_str();
  add.Real("--to", &flags->rules.to, 1e-3, 1e6, "The last, if nothing is too much before")
      ->capture_default_str();
  add.Real("--values", &flags->rules.values, 1e-3, 1e6, "These loads, and no search")
      ->delimiter(',')
      ->type_name("LIST");
  add.Real("--precision", &flags->rules.precision, 0.01, 1,
           "Of the load that is found, as a share of it")
      ->capture_default_str();
  add.Real("--good-share", &flags->rules.good_share, 0, 1,
           "Of the requests, that must keep the bounds of --goodput; else the load is too much")
      ->capture_default_str();
  add.Real(
         "--point-seconds", &flags->point_seconds, 0.1, 1e5,
         "How long requests of one rate are sent; at a time it is 8 for each place. --num-prompts "
         "wins over both")
      ->capture_default_str();
  add.Count("--max-points", &flags->rules.max_points, 1, 1000, "Loads that are run at most")
      ->capture_default_str();
}

}  // namespace

Command AddSweep(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "sweep", "Loads of a running server, heavier and heavier, to find where it saturates");
  command->footer(
      "A rate is too much when fewer than 95 % of the requests that were due were completed per "
      "second,\n"
      "in the middle of the load. A concurrency is when a lower one had at least 95 % of the most "
      "tokens\n"
      "per second that were seen. Either is when fewer requests than --good-share keep the bounds "
      "of\n"
      "--goodput, or more than 5 % fail.\n"
      "\nExamples:\n"
      "  quire-bench sweep --input-len 200 --output-len 100 --json sweep.json\n"
      "  quire-bench sweep --goodput ttft:200 tpot:50 --good-share 0.95 --from 4\n"
      "  quire-bench sweep --by concurrency --values 1,2,4,8,16 --json sweep.json");
  const auto flags = std::make_shared<SweepFlags>();
  AddServeFlags(*command, &flags->serve);
  AddSearchFlags(*command, flags.get());
  return [flags] { return Finish(RunSweep(*flags)); };
}

}  // namespace quire::bench

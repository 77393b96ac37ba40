// quire-bench compare: what changed between two runs, and whether that is more than chance.

#include <cstdio>
#include <memory>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/command_line.h"
#include "tools/bench/commands.h"
#include "tools/bench/failure.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/result_file.h"
#include "tools/bench/results/comparison.h"
#include "tools/bench/results/workload_check.h"
#include "tools/bench/run_header.h"
#include "tools/bench/shown_progress.h"

namespace quire::bench {

namespace {

struct CompareFlags {
  std::vector<std::string> files, against;
  std::vector<std::string> fail_if;
  int64_t num_resamples = 2000;
  uint64_t seed = 0;
  std::optional<std::string> json_file;
};

absl::Status ChooseSides(CompareFlags* flags) {
  if (!flags->against.empty()) return absl::OkStatus();
  if (flags->files.size() != 2) {
    return UsageError(
        "compare takes two files, A and B; for several of each: A1 A2 --against B1 B2");
  }
  flags->against = {flags->files[1]};
  flags->files.pop_back();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SavedRun>> ReadSide(const std::vector<std::string>& paths) {
  std::vector<SavedRun> runs;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(std::vector<SavedRun> of_file, ReadSavedRuns(path));
    for (SavedRun& run : of_file) {
      RETURN_IF_ERROR(CheckHasFigures(run));
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

void WarnOfDoubts(const std::vector<SavedRun>& a, const std::vector<SavedRun>& b) {
  for (const std::vector<SavedRun>* side : {&a, &b}) {
    for (const SavedRun& run : *side) {
      for (const std::string& sentence : DoubtsOf(run)) Warn(sentence);
    }
  }
  for (const std::string& sentence : DifferencesOf(a[0], b[0])) Warn(sentence);
}

absl::Status JudgeAll(const std::vector<Bound>& bounds, const std::vector<ComparedFigure>& figures,
                      nlohmann::ordered_json* json) {
  std::vector<std::string> failed;
  for (const Bound& bound : bounds) {
    ASSIGN_OR_RETURN(const Verdict verdict, Judge(bound, figures));
    std::printf("%s %s: %s\n", verdict.fails ? "FAIL" : "pass", bound.text.c_str(),
                verdict.why.c_str());
    (*json)["fail_if"].push_back(
        {{"bound", bound.text}, {"fails", verdict.fails}, {"why", verdict.why}});
    if (verdict.fails) failed.push_back(absl::StrCat(bound.text, " (", verdict.why, ")"));
  }
  if (failed.empty()) return absl::OkStatus();
  return WithExitCode(kFailed, absl::FailedPreconditionError(absl::StrCat(
                                   "worse than --fail-if allows: ", absl::StrJoin(failed, "; "))));
}

absl::Status RunCompare(CompareFlags& flags) {
  RETURN_IF_ERROR(ChooseSides(&flags));
  std::vector<Bound> bounds;
  ComparisonOptions options = {.num_resamples = flags.num_resamples, .seed = flags.seed};
  for (const std::string& text : flags.fail_if) {
    ASSIGN_OR_RETURN(bounds.emplace_back(), ParseBound(text));
    options.more_figures.push_back(bounds.back().figure.name);
  }
  ASSIGN_OR_RETURN(const auto json_file, OpenResultFile("--json", flags.json_file));
  ASSIGN_OR_RETURN(const std::vector<SavedRun> a, ReadSide(flags.files));
  ASSIGN_OR_RETURN(const std::vector<SavedRun> b, ReadSide(flags.against));
  WarnOfDoubts(a, b);
  options.are_paired = ArePaired(a, b);
  std::vector<ComparedFigure> figures;
  {
    const InterruptibleRun interruptible;
    ShownProgress progress;
    figures = Compare(a, b, options, progress.get());
  }
  std::printf("A  %s\nB  %s\n", absl::StrJoin(flags.files, ", ").c_str(),
              absl::StrJoin(flags.against, ", ").c_str());
  if (options.are_paired) std::printf("The same requests on both sides, drawn together\n");
  std::printf("\n%s\n", ToText(figures).c_str());
  nlohmann::ordered_json json = RunJson("compare");
  json["a"] = flags.files;
  json["b"] = flags.against;
  json["seed"] = flags.seed;
  json["num_resamples"] = flags.num_resamples;
  json["paired"] = options.are_paired;
  json["interrupted"] = Interrupted();
  json["figures"] = ToJson(figures);
  json["fail_if"] = nlohmann::ordered_json::array();
  absl::Status verdict = JudgeAll(bounds, figures, &json);
  RETURN_IF_ERROR(WriteJson(json, json_file.get()));
  return verdict;
}

}  // namespace

Command AddCompare(CLI::App& app) {
  CLI::App* command = app.add_subcommand("compare",
                                         "What changed between two saved runs, with confidence "
                                         "intervals; fails on a stated regression");
  command->footer(
      "An interval needs each run's requests (--save-detailed): they are drawn again at random, "
      "and "
      "the change\n"
      "lies within it in 95 % of the draws. Runs with the same --seed have the same ones drawn on "
      "both sides.\n"
      "A --fail-if of a change fails when the change is beyond the bound and its interval excludes "
      "no change;\n"
      "without an interval, by the change alone. A bound without % is one of B's value.\n"
      "\nExamples:\n"
      "  quire-bench compare before.json after.json --fail-if 'p99_ttft_ms>+5%' --fail-if "
      "'output_throughput<-3%'\n"
      "  quire-bench compare a1.json a2.json a3.json --against b1.json b2.json b3.json");
  const auto flags = std::make_shared<CompareFlags>();
  FlagGroup add(*command);
  add.Text(
         "files", &flags->files, "FILE",
         "Results of serve, throughput or latency, or of vLLM's bench serve: A and B, or all of A")
      ->required();
  add.Text("--against", &flags->against, "FILE", "Files of B, where there are several of a side");
  add.Text("--fail-if", &flags->fail_if, "BOUND",
           "Exit with 1 when this holds, such as p99_ttft_ms>+5%, output_throughput<-3% or "
           "p99_ttft_ms>200; may be repeated")
      ->allow_extra_args(false);
  add.Count("--num-resamples", &flags->num_resamples, 100, 1'000'000, "Draws of the requests")
      ->capture_default_str();
  add.Seed("--seed", &flags->seed, "Of the draws")->capture_default_str();
  add.Json(&flags->json_file);
  return [flags] { return Finish(RunCompare(*flags)); };
}

}  // namespace quire::bench

// quire-bench report: one page of several saved results.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/command_line.h"
#include "tools/bench/commands.h"
#include "tools/bench/failure.h"
#include "tools/bench/report/report_data.h"
#include "tools/bench/report/result_page.h"
#include "tools/bench/result_file.h"
#include "tools/bench/results/figure.h"
#include "tools/bench/shown_progress.h"

namespace quire::bench {

namespace {

struct ReportFlags {
  std::vector<std::string> files;
  std::string html_file;
  std::string title;
};

// The label, else the file's name; told apart by a number.
std::string NameOf(const std::string& path, const nlohmann::ordered_json& json,
                   std::set<std::string>* taken) {
  const std::string label = TextAt(json, "label");
  const std::string name = label.empty() ? std::filesystem::path(path).stem().string() : label;
  for (int i = 1;; ++i) {
    std::string own = i == 1 ? name : absl::StrCat(name, " (", i, ")");
    if (taken->insert(own).second) return own;
  }
}

absl::StatusOr<std::vector<NamedResult>> ReadResults(const ReportFlags& flags) {
  std::vector<NamedResult> results;
  std::set<std::string> taken;
  for (const std::string& path : flags.files) {
    ASSIGN_OR_RETURN(std::vector<nlohmann::ordered_json> documents, ReadJsonFile(path));
    for (nlohmann::ordered_json& json : documents) {
      NamedResult result = {.name = NameOf(path, json, &taken), .kind = KindOf(json), .run = {}};
      if (results.size() == kMostResults) {
        return UsageError(
            absl::StrCat(path, ": more than ", kMostResults, " results are too many for one page"));
      }
      if (result.kind == "run") {
        ASSIGN_OR_RETURN(result.run, MakeSavedRun(path, std::move(json)));
        RETURN_IF_ERROR(CheckHasFigures(result.run));
      } else {
        result.run.path = path;
        result.run.document = std::make_shared<const nlohmann::ordered_json>(std::move(json));
      }
      results.push_back(std::move(result));
    }
  }
  return results;
}

absl::Status CheckFiles(const ReportFlags& flags) {
  if (flags.files.empty()) {
    return UsageError("which results? Name files that commands wrote with --json");
  }
  if (flags.html_file.empty()) {
    return UsageError("--html is missing: the file that the page goes to, as --html report.html");
  }
  for (const std::string& path : flags.files) {
    std::error_code error;  // of files that are not there
    if (std::filesystem::equivalent(path, flags.html_file, error)) {
      return UsageError(
          absl::StrCat("--html: ", path, " is one of the results, which the page would replace"));
    }
  }
  return absl::OkStatus();
}

absl::Status MakeReport(ReportFlags& flags) {
  RETURN_IF_ERROR(CheckFiles(flags));
  ASSIGN_OR_RETURN(const auto html_file, OpenResultFile("--html", flags.html_file));
  ASSIGN_OR_RETURN(const std::vector<NamedResult> results, ReadResults(flags));
  std::string page;
  {
    ShownProgress progress;
    page = ResultPage(flags.title, ReportData(results, progress.get()));
  }
  RETURN_IF_ERROR(html_file->Write(page));
  if (flags.html_file != "-") {
    std::fputs(absl::StrCat("quire-bench: ", flags.html_file, ": open it in a browser\n").c_str(),
               stderr);
  }
  return absl::OkStatus();
}

}  // namespace

Command AddReport(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "report", "One HTML file of saved results, side by side: tables and plots");
  command->footer(
      "The file needs nothing else: it can be mailed, or kept with a build. Plots of time and of "
      "percentiles need the\n"
      "runs' requests (--save-detailed of serve, throughput and latency).\n"
      "\nExamples:\n"
      "  quire-bench report result.json --html report.html\n"
      "  quire-bench report quire.json other.json sweep.json --html report.html --title 'Two "
      "servers'\n"
      "  quire-bench report kernels-before.json kernels-after.json --html kernels.html");
  const auto flags = std::make_shared<ReportFlags>();
  flags->title = "Results";
  FlagGroup add(*command);
  add.Text("files", &flags->files, "FILE",
           "Results of serve, sweep, throughput, latency, startup, kernels, timeline and "
           "quality, or of vLLM's bench serve");
  add.Text("--html", &flags->html_file, "FILE", "Where the page goes");
  add.Text("--title", &flags->title, "TEXT", "Of the page")->capture_default_str();
  return [flags] { return Finish(MakeReport(*flags)); };
}

}  // namespace quire::bench

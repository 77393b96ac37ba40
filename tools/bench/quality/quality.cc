// quire-bench quality: how good a running server's answers are, and how far they are from those of
// another run.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/command_line.h"
#include "tools/bench/commands.h"
#include "tools/bench/failure.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/load/load.h"
#include "tools/bench/quality/quality_items.h"
#include "tools/bench/quality/quality_report.h"
#include "tools/bench/quality/recorded_answers.h"
#include "tools/bench/result_file.h"
#include "tools/bench/run_header.h"
#include "tools/bench/serve/server_flags.h"
#include "tools/bench/shown_progress.h"
#include "tools/cli/counted.h"

namespace quire::bench {

namespace {

struct QualityFlags : ServerFlags {
  std::string path;
  QualityFileOptions file;
  MatchOptions match;
  int64_t max_concurrency = 16;
  int64_t first_tokens = 32;
  std::optional<double> require, require_identical;
  bool show_wrong = false;
  std::optional<std::string> json_file, answers_file, compare_with;
};

void AddQuestionFlags(CLI::App& command, QualityFlags* flags) {
  FlagGroup add(command, "Questions");
  add.Text("--dataset-path", &flags->path, "FILE",
           "JSON lines: {\"prompt\" or \"messages\", \"answer\"}, {\"text\"} or {\"prompt\", "
           "\"choices\", \"answer\"}; docs/datasets-and-quality.md has all of it");
  add.Count("--every", &flags->file.every, 1, 1'000'000, "Ask only every n-th of the lines")
      ->capture_default_str();
  add.Count("--max-tokens", &flags->file.max_tokens, 1, 1 << 24,
            "Generated tokens at most, where the line does not say it")
      ->capture_default_str();
  add.Count("--max-concurrency", &flags->max_concurrency, 1, 100'000, "Requests at a time")
      ->capture_default_str();
  add.Text("--stop", &flags->file.stop, "TEXT",
           "Text that ends an answer, where the line does not say it; may be repeated");
}

void AddJudgeFlags(CLI::App& command, QualityFlags* flags) {
  FlagGroup add(command, "Judging");
  add.Switch("--ignore-case", &flags->match.ignore_case, "When answers are compared");
  add.Switch("--ignore-punctuation", &flags->match.ignore_punctuation, "Likewise");
  add.Text("--answer-after", &flags->match.answer_after, "TEXT",
           "Only what comes after the last of these in a text is its answer");
  add.Real("--require", &flags->require, 0, 1,
           "Exit with 1 when a smaller share of the answers and choices is right")
      ->type_name("SHARE");
  add.Switch("--show-wrong", &flags->show_wrong, "Print the answers that are wrong");
  add.Text("--save-answers", &flags->answers_file, "FILE",
           "Record the answers, their token ids and logprobs");
  add.Text("--compare-with", &flags->compare_with, "FILE",
           "Say how far the answers are from those that --save-answers recorded");
  add.Count("--first-tokens", &flags->first_tokens, int64_t{1}, int64_t{1} << 24,
            "Say how many answers begin with the same so many tokens")
      ->capture_default_str();
  add.Real("--require-identical", &flags->require_identical, 0, 1,
           "Exit with 1 when a smaller share of the answers is the recorded one")
      ->type_name("SHARE");
  add.Json(&flags->json_file);
}

absl::Status CheckQualityFlags(QualityFlags* flags) {
  RETURN_IF_ERROR(CheckServerFlags(flags));
  if (flags->backend == "vllm-grpc") {
    return UsageError("--backend: vllm-grpc sends no text; take quire, openai or openai-chat");
  }
  if (!flags->server.endpoint.empty()) {
    return UsageError("--endpoint: quality asks the backend's own; leave it out");
  }
  if (flags->path.empty()) {
    return UsageError("--dataset-path is missing: which questions are to be asked?");
  }
  if (flags->require_identical.has_value() && !flags->compare_with.has_value()) {
    return UsageError("--require-identical goes with --compare-with");
  }
  flags->file.takes_messages = flags->backend != "openai";
  flags->file.tells_likelihoods = flags->backend != "openai-chat";
  flags->server.sampling.ignore_eos = false;
  flags->server.keeps_answers = true;
  return absl::OkStatus();
}

LoadResult Ask(const QualityFlags& flags, const ServerAddress& server, const LoadBackend& backend,
               const std::vector<WorkItem>& requests) {
  ShownProgress progress;
  return RunLoad(server, backend, requests, std::vector<double>(requests.size(), 0.0),
                 {.max_concurrency = flags.max_concurrency}, progress.get());
}

std::vector<QualityResult> AskAll(const QualityFlags& flags, const ServedTarget& target,
                                  const std::vector<QualityItem>& items) {
  const InterruptibleRun interruptible;
  std::vector<QualityResult> results(items.size());
  BackendOptions options = flags.server;
  options.model = target.model.name;
  std::vector<WorkItem> requests;
  std::vector<size_t> owners;
  const auto ask = [&](auto take) {
    if (requests.empty()) return;
    const LoadResult answers =
        Ask(flags, target.address, *MakeLoadBackend(flags.backend, options), requests);
    for (size_t i = 0; i < owners.size(); ++i) take(answers.records[i], &results[owners[i]]);
  };
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].kind != QualityKind::kAnswer) continue;
    requests.push_back(items[i].request);
    owners.push_back(i);
  }
  options.wants_logprobs = flags.answers_file.has_value() || flags.compare_with.has_value();
  ask(TakeAnswer);
  owners.clear();
  requests = ScoringRequests(items, &owners);
  options.wants_logprobs = false;
  options.wants_prompt_logprobs = true;
  ask(TakeScore);
  return results;
}

// The end of what was asked, and an answer, each in one line.
std::string WrongText(const QualityItem& item, const QualityResult& result) {
  constexpr size_t kEnd = 200;
  const auto one_line = [](const std::string& text) {
    return absl::StrReplaceAll(text, {{"\n", "\\n"}});
  };
  const std::string& asked =
      item.request.messages.empty() ? item.request.text : item.request.messages.back().content;
  size_t begin = asked.size() - std::min(asked.size(), kEnd);
  // Not within a character.
  while (begin < asked.size() && (static_cast<unsigned char>(asked[begin]) & 0xc0) == 0x80) ++begin;
  return absl::StrCat("line ", item.line, ": asked \"", one_line(asked.substr(begin)),
                      "\", expected \"", one_line(item.answers[0]), "\", got \"",
                      one_line(result.text), "\"\n");
}

absl::Status Judge(const QualityFlags& flags, const QualityReport& report,
                   const AnswerComparison& comparison) {
  std::string problem;
  if (report.num_failed > 0) {
    problem = absl::StrCat(Counted(report.num_failed, "item"),
                           " failed; the first: ", report.first_problem);
  } else if (Interrupted()) {
    return absl::OkStatus();  // a part is not the whole's share
  } else if (flags.require.has_value() && report.total.ShareRight() < *flags.require) {
    problem = absl::StrFormat("%.2f %% are right, less than --require %g",
                              100 * report.total.ShareRight(), *flags.require);
  } else if (flags.require_identical.has_value() &&
             comparison.ShareIdentical() < *flags.require_identical) {
    problem = absl::StrFormat("%.2f %% are identical, less than --require-identical %g",
                              100 * comparison.ShareIdentical(), *flags.require_identical);
  }
  if (problem.empty()) return absl::OkStatus();
  return WithExitCode(kFailed, absl::UnknownError(problem));
}

nlohmann::ordered_json DescribeRun(const QualityFlags& flags, const ServedModel& model,
                                   size_t num_items) {
  nlohmann::ordered_json json = TargetJson("quality", flags, model);
  json["dataset_path"] = flags.path;
  json["num_items"] = num_items;
  json["interrupted"] = Interrupted();
  return json;
}

absl::Status Quality(QualityFlags& flags) {
  RETURN_IF_ERROR(CheckQualityFlags(&flags));
  ASSIGN_OR_RETURN(const std::vector<QualityItem> items, ReadQualityItems(flags.path, flags.file));
  std::vector<QualityResult> recorded;
  if (flags.compare_with.has_value()) {
    ASSIGN_OR_RETURN(recorded, ReadRecordedAnswers(*flags.compare_with, items));
  }
  ASSIGN_OR_RETURN(const auto json_file, OpenResultFile("--json", flags.json_file));
  ASSIGN_OR_RETURN(const auto answers_file, OpenResultFile("--save-answers", flags.answers_file));
  ASSIGN_OR_RETURN(const ServedTarget target, OpenTarget(flags));
  Print(TargetHeader(
      "quality", absl::StrCat(Counted(std::ssize(items), "item"), " of ", flags.path, ", greedy"),
      flags, target.model));

  const std::vector<QualityResult> results = AskAll(flags, target, items);
  const QualityReport report = MakeQualityReport(items, results, flags.match);
  if (Interrupted()) std::printf("interrupted; results so far:\n");
  for (const size_t i : flags.show_wrong ? report.wrong : std::vector<size_t>()) {
    std::fputs(WrongText(items[i], results[i]).c_str(), stdout);
  }
  std::fputs(ToText(report).c_str(), stdout);
  nlohmann::ordered_json json = DescribeRun(flags, target.model, items.size());
  json.update(ToJson(report));
  AnswerComparison comparison;
  if (flags.compare_with.has_value()) {
    comparison = Compare(items, recorded, results, flags.first_tokens);
    std::printf("compared with %s:\n%s", flags.compare_with->c_str(), ToText(comparison).c_str());
    json["compared_with"] = *flags.compare_with;
    json["comparison"] = ToJson(comparison);
  }
  if (answers_file != nullptr) {
    RETURN_IF_ERROR(answers_file->Write(RecordAnswers(items, results)));
  }
  RETURN_IF_ERROR(WriteJson(json, json_file.get()));
  return Judge(flags, report, comparison);
}

}  // namespace

Command AddQuality(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("quality", "Score a running server's answers, or compare them");
  command->footer(
      "Examples:\n"
      "  quire-bench quality --dataset-path questions.jsonl --require 0.95\n"
      "  quire-bench quality --dataset-path questions.jsonl --save-answers bf16.jsonl\n"
      "  quire-bench quality --dataset-path questions.jsonl --compare-with bf16.jsonl\n"
      "  quire-bench quality --dataset-path texts.jsonl --backend openai --base-url "
      "http://127.0.0.1:8080");
  const auto flags = std::make_shared<QualityFlags>();
  AddServerFlags(*command, flags.get());
  AddQuestionFlags(*command, flags.get());
  AddJudgeFlags(*command, flags.get());
  return [flags] { return Finish(Quality(*flags)); };
}

}  // namespace quire::bench

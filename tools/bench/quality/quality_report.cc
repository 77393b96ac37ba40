#include "tools/bench/quality/quality_report.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tools/cli/counted.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

// Which of the choices is likeliest: the sum of log-likelihoods decides, or that per byte.
size_t Chosen(const QualityItem& item, const QualityResult& result, bool by_byte) {
  size_t best = 0;
  double best_score = 0;
  for (size_t i = 0; i < item.choices.size(); ++i) {
    double score = result.log_likelihoods[i + 1] - result.log_likelihoods[0];
    if (by_byte) score /= static_cast<double>(item.choices[i].size());
    if (i == 0 || score > best_score) {
      best = i;
      best_score = score;
    }
  }
  return best;
}

void Add(const QualityItem& item, const QualityResult& result, bool is_right, TaskScore* score) {
  switch (item.kind) {
    case QualityKind::kAnswer:
      if (item.answers.empty()) return;
      ++score->num_answers;
      score->num_right += is_right ? 1 : 0;
      return;
    case QualityKind::kText:
      ++score->num_texts;
      score->num_tokens += static_cast<int64_t>(result.logprobs.size());
      score->num_bytes += static_cast<int64_t>(item.request.text.size());
      score->log_likelihood += result.log_likelihoods[0];
      return;
    case QualityKind::kChoice:
      ++score->num_choices;
      score->num_chosen += Chosen(item, result, /*by_byte=*/false) == item.right_choice ? 1 : 0;
      score->num_chosen_by_byte +=
          Chosen(item, result, /*by_byte=*/true) == item.right_choice ? 1 : 0;
      return;
  }
}

double Perplexity(const TaskScore& score) {
  return std::exp(-score.log_likelihood / static_cast<double>(score.num_tokens));
}

double BitsPerByte(const TaskScore& score) {
  return -score.log_likelihood / std::log(2.0) / static_cast<double>(score.num_bytes);
}

Json ScoreJson(const TaskScore& score) {
  Json json = Json::object();
  if (score.num_answers > 0) {
    json["exact_match"] = Share(score.num_right, score.num_answers);
    json["num_right"] = score.num_right;
    json["num_answers"] = score.num_answers;
  }
  if (score.num_texts > 0) {
    json["perplexity"] = Perplexity(score);
    json["bits_per_byte"] = BitsPerByte(score);
    json["log_likelihood"] = score.log_likelihood;
    json["num_texts"] = score.num_texts;
    json["num_tokens"] = score.num_tokens;
  }
  if (score.num_choices > 0) {
    json["acc"] = Share(score.num_chosen, score.num_choices);
    json["acc_norm"] = Share(score.num_chosen_by_byte, score.num_choices);
    json["num_choices"] = score.num_choices;
  }
  return json;
}

void AddRow(const std::string& task, const TaskScore& score, std::string* text) {
  const std::string name = task.empty() ? "(no task)" : task;
  if (score.num_answers > 0) {
    absl::StrAppendFormat(text, "%-16s %5d of %5d right, %.1f %%\n", name, score.num_right,
                          score.num_answers, 100 * Share(score.num_right, score.num_answers));
  }
  if (score.num_choices > 0) {
    absl::StrAppendFormat(
        text, "%-16s %5d of %5d chosen, %.1f %%; by likelihood per byte %.1f %%\n", name,
        score.num_chosen, score.num_choices, 100 * Share(score.num_chosen, score.num_choices),
        100 * Share(score.num_chosen_by_byte, score.num_choices));
  }
  if (score.num_texts > 0) {
    absl::StrAppendFormat(text, "%-16s perplexity %.4f, %.4f bits per byte: %s, %s\n", name,
                          Perplexity(score), BitsPerByte(score), Counted(score.num_texts, "text"),
                          Counted(score.num_tokens, "token"));
  }
}

}  // namespace

double Share(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<int64_t>(whole, 1));
}

double TaskScore::ShareRight() const {
  return Share(num_right + num_chosen, num_answers + num_choices);
}

std::vector<WorkItem> ScoringRequests(const std::vector<QualityItem>& items,
                                      std::vector<size_t>* owners) {
  std::vector<WorkItem> requests;
  for (size_t i = 0; i < items.size(); ++i) {
    const QualityItem& item = items[i];
    if (item.kind == QualityKind::kAnswer) continue;
    requests.push_back(item.request);
    for (const std::string& choice : item.choices) {
      requests.push_back(item.request);
      requests.back().text += choice;
    }
    owners->resize(requests.size(), i);
  }
  return requests;
}

void TakeAnswer(const RequestRecord& record, QualityResult* result) {
  result->is_done = record.outcome == Outcome::kCompleted;
  result->problem = record.problem;
  result->text = record.text;
  result->token_ids = record.token_ids;
  result->logprobs = record.logprobs;
}

void TakeScore(const RequestRecord& record, QualityResult* result) {
  const bool was_whole = result->log_likelihoods.empty() || result->is_done;
  std::vector<float> logprobs = record.prompt_logprobs;
  if (logprobs.empty()) {  // an echo's, with those of what was generated after it
    logprobs = record.logprobs;
    const auto generated = static_cast<size_t>(record.completion_tokens);
    logprobs.resize(logprobs.size() - std::min(logprobs.size(), generated));
  }
  result->log_likelihoods.push_back(std::accumulate(logprobs.begin(), logprobs.end(), 0.0));
  result->logprobs.insert(result->logprobs.end(), logprobs.begin(), logprobs.end());
  result->is_done = was_whole && record.outcome == Outcome::kCompleted && !logprobs.empty();
  if (!result->problem.empty()) return;
  result->problem = record.problem;
  if (record.outcome == Outcome::kCompleted && logprobs.empty()) {
    result->problem =
        "no logprobs of the text came: it has a single token, or the server does not tell them";
  }
}

QualityReport MakeQualityReport(const std::vector<QualityItem>& items,
                                const std::vector<QualityResult>& results,
                                const MatchOptions& options) {
  QualityReport report;
  for (size_t i = 0; i < items.size(); ++i) {
    const QualityItem& item = items[i];
    const QualityResult& result = results[i];
    if (!result.is_done) {
      if (result.problem.empty()) {
        ++report.num_unasked;
      } else if (report.num_failed++ == 0) {
        report.first_problem = result.problem;
      }
      continue;
    }
    const bool is_right =
        item.kind == QualityKind::kAnswer && IsRight(result.text, item.answers, options);
    if (item.kind == QualityKind::kAnswer && !item.answers.empty() && !is_right) {
      report.wrong.push_back(i);
    }
    Add(item, result, is_right, &report.tasks[item.task]);
    Add(item, result, is_right, &report.total);
  }
  return report;
}

nlohmann::ordered_json ToJson(const QualityReport& report) {
  Json json = {
      {"failed", report.num_failed}, {"unasked", report.num_unasked}, {"results", Json::object()}};
  for (const auto& [task, score] : report.tasks) {
    if (!task.empty()) json["results"][task] = ScoreJson(score);
  }
  json["results"]["total"] = ScoreJson(report.total);
  return json;
}

std::string ToText(const QualityReport& report) {
  std::string text;
  if (report.tasks.size() > 1) {
    for (const auto& [task, score] : report.tasks) AddRow(task, score, &text);
  }
  AddRow("total", report.total, &text);
  if (report.num_failed > 0) absl::StrAppend(&text, "failed           ", report.num_failed, "\n");
  if (report.num_unasked > 0) absl::StrAppend(&text, "not asked        ", report.num_unasked, "\n");
  return text;
}

}  // namespace quire::bench

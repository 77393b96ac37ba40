#include "tools/bench/quality/recorded_answers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/json/parse_json.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/failure.h"
#include "tools/bench/json_values.h"
#include "tools/bench/statistics.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

// Where two sequences differ first, or the end of the shorter one.
template <typename Sequence>
size_t FirstDifference(const Sequence& one, const Sequence& other) {
  const size_t shorter = std::min(one.size(), other.size());
  return static_cast<size_t>(
      std::mismatch(one.begin(), one.begin() + static_cast<ptrdiff_t>(shorter), other.begin())
          .first -
      one.begin());
}

template <typename Sequence>
void CompareAnswers(const Sequence& one, const Sequence& other, AnswerComparison* comparison) {
  const size_t same = FirstDifference(one, other);
  const bool is_identical = same == one.size() && same == other.size();
  ++comparison->num_compared;
  comparison->num_identical += is_identical ? 1 : 0;
  comparison->num_begin_alike +=
      is_identical || static_cast<int64_t>(same) >= comparison->first_tokens ? 1 : 0;
  if (!is_identical) comparison->divergences.push_back(static_cast<int64_t>(same));
}

void CompareLogprobs(const std::vector<float>& one, const std::vector<float>& other, size_t count,
                     AnswerComparison* comparison) {
  count = std::min({count, one.size(), other.size()});
  for (size_t i = 0; i < count; ++i) {
    comparison->logprob_differences.push_back(
        std::abs(static_cast<double>(one[i]) - static_cast<double>(other[i])));
  }
}

// A line of the file; false where it is none.
bool ReadLine(const std::string& text, std::string* fingerprint, int64_t* line,
              QualityResult* result) {
  const Json json = ParseJson<Json>(text);
  const auto number = IntegerAt(json, "line");
  const auto print = StringAt(json, "fingerprint"), answer = StringAt(json, "text");
  const Json &ids = MemberOf(json, "token_ids"), &logprobs = MemberOf(json, "logprobs");
  const auto all = [](const Json& list, auto is_right) {
    return list.is_array() && std::all_of(list.begin(), list.end(), is_right);
  };
  if (!number.has_value() || !print.has_value() || !answer.has_value() ||
      !all(ids, [](const Json& one) { return one.is_number_integer(); }) ||
      !all(logprobs, [](const Json& one) { return one.is_number(); })) {
    return false;
  }
  *line = *number;
  *fingerprint = *print;
  result->is_done = true;
  result->text = *answer;
  result->token_ids = ids.get<std::vector<int32_t>>();
  result->logprobs = logprobs.get<std::vector<float>>();
  return true;
}

}  // namespace

std::string RecordAnswers(const std::vector<QualityItem>& items,
                          const std::vector<QualityResult>& results) {
  std::string lines;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!results[i].is_done) continue;
    const Json json = {{"line", items[i].line},
                       {"fingerprint", items[i].fingerprint},
                       {"text", results[i].text},
                       {"token_ids", results[i].token_ids},
                       {"logprobs", results[i].logprobs}};
    absl::StrAppend(&lines, LineOf(json), "\n");
  }
  return lines;
}

absl::StatusOr<std::vector<QualityResult>> ReadRecordedAnswers(
    const std::string& path, const std::vector<QualityItem>& items) {
  std::map<int64_t, size_t> by_line;
  for (size_t i = 0; i < items.size(); ++i) by_line[items[i].line] = i;
  std::vector<QualityResult> recorded(items.size());
  const auto take = [&](const std::string& text, int64_t) -> std::string {
    std::string fingerprint;
    int64_t line = 0;
    QualityResult result;
    if (!ReadLine(text, &fingerprint, &line, &result)) {
      return "is no line that --save-answers writes; record the answers again";
    }
    const auto item = by_line.find(line);
    if (item == by_line.end()) return "";  // one that --every leaves out
    if (items[item->second].fingerprint != fingerprint) {
      return absl::StrCat("answers another question than line ", line,
                          " of --dataset-path asks; record the answers again");
    }
    recorded[item->second] = std::move(result);
    return "";
  };
  RETURN_IF_ERROR(ReadLines("--compare-with", path, take));
  return recorded;
}

double AnswerComparison::ShareIdentical() const { return Share(num_identical, num_compared); }

AnswerComparison Compare(const std::vector<QualityItem>& items,
                         const std::vector<QualityResult>& recorded,
                         const std::vector<QualityResult>& results, int64_t first_tokens) {
  AnswerComparison comparison = {.first_tokens = first_tokens};
  for (size_t i = 0; i < items.size(); ++i) {
    const QualityResult& one = recorded[i];
    const QualityResult& other = results[i];
    if (!one.is_done || !other.is_done) {
      ++comparison.num_missing;
      continue;
    }
    size_t num_alike = one.logprobs.size();
    if (items[i].kind == QualityKind::kAnswer) {
      if (one.token_ids.empty() || other.token_ids.empty()) {
        CompareAnswers(one.text, other.text, &comparison);
        num_alike = one.text == other.text ? num_alike : 0;
      } else {
        CompareAnswers(one.token_ids, other.token_ids, &comparison);
        num_alike = FirstDifference(one.token_ids, other.token_ids);
      }
    }
    CompareLogprobs(one.logprobs, other.logprobs, num_alike, &comparison);
  }
  return comparison;
}

nlohmann::ordered_json ToJson(const AnswerComparison& comparison) {
  std::vector<double> divergences(comparison.divergences.begin(), comparison.divergences.end());
  const Distribution differences(comparison.logprob_differences);
  Json json = {
      {"num_compared", comparison.num_compared},
      {"num_missing", comparison.num_missing},
      {"num_identical", comparison.num_identical},
      {"share_identical", comparison.ShareIdentical()},
      {"first_tokens", comparison.first_tokens},
      {"share_first_tokens_identical", Share(comparison.num_begin_alike, comparison.num_compared)}};
  if (!divergences.empty()) {
    json["median_first_divergence"] = Distribution(divergences).Percentile(50);
    json["min_first_divergence"] = *std::min_element(divergences.begin(), divergences.end());
  }
  if (differences.count() > 0) {
    json["num_logprobs"] = differences.count();
    json["mean_logprob_difference"] = differences.Mean();
    json["p99_logprob_difference"] = differences.Percentile(99);
    json["max_logprob_difference"] = differences.Percentile(100);
  }
  return json;
}

std::string ToText(const AnswerComparison& comparison) {
  std::string text;
  if (comparison.num_compared > 0) {
    absl::StrAppendFormat(&text, "%-16s %5d of %5d answers, %.1f %%; the first %d tokens of %d\n",
                          "identical", comparison.num_identical, comparison.num_compared,
                          100 * comparison.ShareIdentical(), comparison.first_tokens,
                          comparison.num_begin_alike);
  }
  if (!comparison.divergences.empty()) {
    const std::vector<double> at(comparison.divergences.begin(), comparison.divergences.end());
    absl::StrAppendFormat(&text, "%-16s at token %.0f at the earliest, %.0f in the middle\n",
                          "they differ", *std::min_element(at.begin(), at.end()),
                          Distribution(at).Percentile(50));
  }
  const Distribution differences(comparison.logprob_differences);
  if (differences.count() > 0) {
    absl::StrAppendFormat(&text, "%-16s differ by %.6f on average, %.6f at most, in %d tokens\n",
                          "logprobs", differences.Mean(), differences.Percentile(100),
                          differences.count());
  }
  if (comparison.num_missing > 0) {
    absl::StrAppendFormat(&text, "%-16s %5d\n", "not in both", comparison.num_missing);
  }
  return text;
}

}  // namespace quire::bench

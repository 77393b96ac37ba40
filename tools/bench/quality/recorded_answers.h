// Answers of a run, kept in a file, and how far those of another run are from them: JSON lines, one
// for each item that was answered.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/bench/quality/quality_items.h"
#include "tools/bench/quality/quality_report.h"

namespace quire::bench {

std::string RecordAnswers(const std::vector<QualityItem>& items,
                          const std::vector<QualityResult>& results);

// The recorded result of each item; not is_done where there is none. Errors (exit code 64) name the
// line, also when it belongs to another item than `items` has.
absl::StatusOr<std::vector<QualityResult>> ReadRecordedAnswers(
    const std::string& path, const std::vector<QualityItem>& items);

struct AnswerComparison {
  int64_t num_compared = 0;     // generated answers, in tokens where both have them, else in bytes
  int64_t num_identical = 0;    // to their ends
  int64_t num_begin_alike = 0;  // their first so many, or all that there are
  int64_t first_tokens = 0;     // how many these are
  std::vector<int64_t> divergences = {};  // of the others: the first token that differs
  // |difference| of the logprobs of tokens that both have, up to the first that differs; of texts
  // and choices, of all of them.
  std::vector<double> logprob_differences = {};
  int64_t num_missing = 0;  // items that one of the runs has no answer to

  double ShareIdentical() const;
};

AnswerComparison Compare(const std::vector<QualityItem>& items,
                         const std::vector<QualityResult>& recorded,
                         const std::vector<QualityResult>& results, int64_t first_tokens);

nlohmann::ordered_json ToJson(const AnswerComparison& comparison);
std::string ToText(const AnswerComparison& comparison);

}  // namespace quire::bench

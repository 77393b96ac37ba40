// The answers of a run, kept in a file of JSON lines, one for each item that was answered; and how
// far another run's answers are from them.
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

// The recorded result of each item; is_done is false if there is none. Errors (exit code 64) name
// the line, also if it belongs to an item that `items` does not have.
absl::StatusOr<std::vector<QualityResult>> ReadRecordedAnswers(
    const std::string& path, const std::vector<QualityItem>& items);

struct AnswerComparison {
  int64_t num_compared = 0;     // generated answers, by tokens if both have them, else bytes
  int64_t num_identical = 0;    // identical to their ends
  int64_t num_begin_alike = 0;  // the same in the first first_tokens tokens, or in all of them
  int64_t first_tokens = 0;     // the number of tokens that num_begin_alike looks at
  std::vector<int64_t> divergences = {};  // the first token that differs, for each other answer
  // |difference| of the logprobs of tokens that both runs have: up to the first token that differs;
  // for texts and choices, of all tokens.
  std::vector<double> logprob_differences = {};
  int64_t num_missing = 0;  // items to which one of the runs has no answer

  double ShareIdentical() const;
};

AnswerComparison Compare(const std::vector<QualityItem>& items,
                         const std::vector<QualityResult>& recorded,
                         const std::vector<QualityResult>& results, int64_t first_tokens);

nlohmann::ordered_json ToJson(const AnswerComparison& comparison);
std::string ToText(const AnswerComparison& comparison);

}  // namespace quire::bench

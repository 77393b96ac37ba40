// The report of `quality` on the answers: scores per task, as text and as JSON under lm-eval's
// names.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "tools/bench/load/request_record.h"
#include "tools/bench/quality/quality_items.h"

namespace quire::bench {

// The result for an item.
struct QualityResult {
  bool is_done = false;      // else it failed, or the run was interrupted
  std::string problem = {};  // why it failed; empty: it was not asked
  std::string text = {};
  std::vector<int32_t> token_ids = {};
  // Logprobs of the generated tokens; for kText and kChoice, of all tokens of the scoring requests.
  std::vector<float> logprobs = {};
  // kText: of the text. kChoice: of the prompt, then of the prompt with each choice in turn.
  std::vector<double> log_likelihoods = {};
};

// The requests that ask how likely the texts of `items` are. The requests of an item follow each
// other, in the order of QualityResult::log_likelihoods. `owners` gets the item of each request.
std::vector<WorkItem> ScoringRequests(const std::vector<QualityItem>& items,
                                      std::vector<size_t>* owners);

// Takes a generated answer, or one of an item's scoring requests, in their order.
void TakeAnswer(const RequestRecord& record, QualityResult* result);
void TakeScore(const RequestRecord& record, QualityResult* result);

double Share(int64_t part, int64_t whole);  // 0 if `whole` is 0

struct TaskScore {
  // kAnswer, with answers.
  int64_t num_answers = 0, num_right = 0;
  // kText.
  int64_t num_texts = 0, num_tokens = 0, num_bytes = 0;
  double log_likelihood = 0;
  // kChoice; num_chosen_by_byte is by likelihood per byte.
  int64_t num_choices = 0, num_chosen = 0, num_chosen_by_byte = 0;

  // The share of right ones among the items that can be right or wrong.
  double ShareRight() const;
};

struct QualityReport {
  std::map<std::string, TaskScore> tasks;
  TaskScore total;
  int64_t num_failed = 0, num_unasked = 0;
  std::string first_problem;
  std::vector<size_t> wrong;  // items of kAnswer
};

QualityReport MakeQualityReport(const std::vector<QualityItem>& items,
                                const std::vector<QualityResult>& results,
                                const MatchOptions& options);

nlohmann::ordered_json ToJson(const QualityReport& report);
std::string ToText(const QualityReport& report);

}  // namespace quire::bench

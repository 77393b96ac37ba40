#include "tools/bench/serve/turn_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tools/bench/statistics.h"
#include "tools/cli/counted.h"

namespace quire::bench {

double TurnReport::CachedShare() const {
  return static_cast<double>(cached_tokens) /
         static_cast<double>(std::max<int64_t>(1, prompt_tokens));
}

std::vector<TurnReport> MakeTurnReports(const std::vector<RequestRecord>& records,
                                        const ReportOptions& options) {
  std::vector<TurnReport> turns;
  for (const RequestRecord& record : records) {
    if (record.outcome != Outcome::kCompleted) continue;
    const auto turn = static_cast<size_t>(record.turn);
    if (turns.size() <= turn) turns.resize(turn + 1);
    TurnReport& report = turns[turn];
    const double begin = record.begin(options.from_due);
    ++report.num_completed;
    report.prompt_tokens += record.prompt_tokens;
    report.cached_tokens += record.cached_tokens;
    report.output_tokens += record.completion_tokens;
    report.ttft_ms.push_back(1000 * (record.first_token - begin));
    report.e2el_ms.push_back(1000 * (record.ended - begin));
  }
  return turns;
}

std::string ToText(const std::vector<TurnReport>& turns) {
  constexpr size_t kShown = 16;
  if (turns.size() < 2) return "";
  std::string text = absl::StrCat(SummaryHeader("time to first token, ms"), "\n");
  for (size_t i = 0; i < std::min(turns.size(), kShown); ++i) {
    absl::StrAppend(&text,
                    SummaryRow(absl::StrCat("turn ", i + 1), Distribution(turns[i].ttft_ms)));
    absl::StrAppendFormat(&text, "  %s, %.0f prompt tokens each, %.1f %% cached\n",
                          Counted(turns[i].num_completed, "request"),
                          static_cast<double>(turns[i].prompt_tokens) /
                              static_cast<double>(std::max<int64_t>(1, turns[i].num_completed)),
                          100 * turns[i].CachedShare());
  }
  if (turns.size() > kShown) absl::StrAppend(&text, turns.size() - kShown, " further turns\n");
  return text;
}

nlohmann::ordered_json ToJson(const std::vector<TurnReport>& turns) {
  auto json = nlohmann::ordered_json::array();
  if (turns.size() < 2) return json;
  for (size_t i = 0; i < turns.size(); ++i) {
    const TurnReport& turn = turns[i];
    json.push_back({{"turn", i + 1},
                    {"completed", turn.num_completed},
                    {"total_input_tokens", turn.prompt_tokens},
                    {"cached_input_tokens", turn.cached_tokens},
                    {"cached_share", turn.CachedShare()},
                    {"total_output_tokens", turn.output_tokens}});
    AddLatencies("ttft", turn.ttft_ms, {99}, &json.back());
    AddLatencies("e2el", turn.e2el_ms, {99}, &json.back());
  }
  return json;
}

}  // namespace quire::bench

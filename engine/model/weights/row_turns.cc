#include "engine/model/weights/row_turns.h"

#include <numeric>

#include "kernels/base/check.h"

namespace quire {

std::vector<RowRun> RunsOf(const WeightPart& part, int64_t first_row, int64_t num_rows) {
  const std::vector<int64_t> turns =
      part.turns.empty() ? std::vector<int64_t>{part.num_rows} : part.turns;
  const int64_t round = std::accumulate(turns.begin(), turns.end(), int64_t{0});
  CHECK(round > 0 && part.num_rows % round == 0) << part.name;
  std::vector<RowRun> runs(turns.size());
  int64_t first_of_kind = 0, first_in_round = 0;
  for (size_t kind = 0; kind < turns.size(); ++kind) {
    for (int64_t i = 0; i < num_rows; ++i) {
      const int64_t row = first_row + i;
      const int64_t in_turn = row % round - first_in_round;
      if (in_turn < 0 || in_turn >= turns[kind]) continue;
      if (runs[kind].from.empty()) {
        runs[kind].weight_row = first_of_kind + row / round * turns[kind] + in_turn;
      }
      runs[kind].from.push_back(i);
    }
    first_of_kind += part.num_rows / round * turns[kind];
    first_in_round += turns[kind];
  }
  std::erase_if(runs, [](const RowRun& run) { return run.from.empty(); });
  return runs;
}

}  // namespace quire

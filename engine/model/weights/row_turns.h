// Rows that take turns (WeightPart::turns): the places of a tensor's rows in its weight. Plain
// function; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/weights/weight_plan.h"

namespace quire {

// Rows of one kind, which follow one another in the weight.
struct RowRun {
  int64_t weight_row = 0;          // of the first one, after the part's beginning
  std::vector<int64_t> from = {};  // index of each among the tensor's rows in question
};

// The tensor's rows [first_row, first_row + num_rows), each in one of the runs.
std::vector<RowRun> RunsOf(const WeightPart& part, int64_t first_row, int64_t num_rows);

}  // namespace quire

// SumChoices: the end of ExpertsLinear, from the rows of pairs to tokens. Called on the stream's
// thread.
#pragma once

#include <cstdint>

#include "kernels/cpu/runtime/thread_pool.h"
#include "kernels/experts.h"

namespace quire::cpu {

// args.out, of args.rows; row_of_pair[pair] is where in args.rows a pair's row is.
void SumChoices(const ExpertsLinearArgs& args, const int32_t* row_of_pair, ThreadPool& pool);

}  // namespace quire::cpu

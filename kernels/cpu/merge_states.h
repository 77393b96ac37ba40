// Merging partial attentions on the CPU. Runs in a stream's task; rows share the pool.
#pragma once

#include "kernels/cpu/thread_pool.h"
#include "kernels/op_args.h"

namespace quire::cpu {

void MergeState(const MergeStateArgs& args, ThreadPool& pool);
void MergeStates(const MergeStatesArgs& args, ThreadPool& pool);

}  // namespace quire::cpu

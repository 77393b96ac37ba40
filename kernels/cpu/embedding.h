// Rows of the embedding table, read out of the packed layout that the tied output layer also uses.
#pragma once

#include "kernels/cpu/thread_pool.h"
#include "kernels/op_args.h"

namespace quire::cpu {

// out[i] = table[id], where id = input_ids[i], or row_last_token[~input_ids[i]] if that is
// negative.
void Embedding(const EmbeddingArgs& args, ThreadPool& pool);

}  // namespace quire::cpu

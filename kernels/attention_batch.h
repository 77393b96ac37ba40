// The two parts of a step's batch, for paths and plans that compute them apart. Plain functions;
// any thread.
#pragma once

#include "kernels/attention.h"

namespace quire {

// The decodes, which come first.
AttentionBatch DecodesOf(AttentionBatch batch);

// All others.
AttentionBatch PrefillsOf(AttentionBatch batch);

}  // namespace quire

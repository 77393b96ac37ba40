// Cascade attention: what decodes have in common is read once for all of them. Their queries are
// the rows of one prompt that sees all of the prefix; the rest of each sequence is decoded as ever,
// and the prompt's result merged into that (AttentionLimits::merges). Engine thread.
//
// After FlashInfer's cascade inference (Ye et al., 2024); each level has keys of its own, so that
// none is counted twice.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/attention.h"
#include "kernels/device.h"

namespace quire {

// Why decodes of these heads cannot be taken apart so; empty if they can. A window or a sink
// belongs to whole sequences.
std::string WhyNoCascade(const AttentionGeometry& geometry);

// What a plan of decodes becomes. `decode` computes the rest, a plan of `prefill` the prefixes
// (AttentionBatch::prefixes, of at most `max_num_groups` groups); without any, `decode` everything.
absl::StatusOr<std::unique_ptr<AttentionPlan>> MakeCascadePlan(
    Device& device, AttentionBackend& prefill, std::unique_ptr<AttentionPlan> decode,
    const AttentionGeometry& geometry, const AttentionLimits& limits, int64_t max_num_groups);

}  // namespace quire

// Cascade attention: a prefix that decodes have in common is read once for all of them. Their
// queries become the rows of one prompt that sees all of the prefix. The rest of each sequence is
// decoded as usual, and the prompt's result is merged into that (AttentionLimits::merges). Engine
// thread.
//
// It follows FlashInfer's cascade inference (Ye et al., 2024). Each level has its own keys, so that
// no key counts twice.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/attention.h"
#include "kernels/device.h"

namespace quire {

// Why decodes with these heads cannot be split in this way; empty if they can. A window or a sink
// belongs to whole sequences.
std::string WhyNoCascade(const AttentionGeometry& geometry);

// The cascade's form of a plan of decodes. `decode` computes the rest of each sequence. A plan of
// `prefill` computes the prefixes (AttentionBatch::prefixes, of at most `max_num_groups` groups).
// Without prefixes, `decode` computes everything.
absl::StatusOr<std::unique_ptr<AttentionPlan>> MakeCascadePlan(
    Device& device, AttentionBackend& prefill, std::unique_ptr<AttentionPlan> decode,
    const AttentionGeometry& geometry, const AttentionLimits& limits, int64_t max_num_groups);

}  // namespace quire

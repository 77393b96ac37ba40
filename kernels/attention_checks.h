// The checks that every attention backend makes: of a geometry against its capabilities, and of the
// arguments of a run against the geometry. Plain functions; any thread.
#pragma once

#include <string>

#include "kernels/attention.h"

namespace quire {

// As settings and reports have it.
const char* PathName(AttentionPath path);

// Why a path cannot serve the geometry, or a step with that many sequences, on a device that it
// runs on; empty if it can.
std::string WhyUnsupported(const AttentionCapabilities& path, const AttentionGeometry& geometry);
std::string WhyUnsupported(const AttentionCapabilities& path, int64_t max_num_seqs);

// A misfit is a programmer's error and fails a CHECK.
void CheckMerges(const AttentionGeometry& geometry, const AttentionLimits& limits);
// `merges` as the plan's limits have it.
void CheckArgs(const AttentionGeometry& geometry, bool merges, const AttentionRunArgs& args);

}  // namespace quire

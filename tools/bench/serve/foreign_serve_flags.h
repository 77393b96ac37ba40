// Flags of other load testers that `serve` does not have, with a sentence each: what to use, or why
// there is nothing like it. Any thread.
#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/start/settings/foreign_flags.h"

namespace CLI {
class App;
}

namespace quire::bench {

absl::Span<const ForeignFlags> ForeignServeFlagTable();

// An error (exit code 64) with the sentence of the first such flag that is left over from
// `command`.
absl::Status CheckForeignFlags(const CLI::App& command);

}  // namespace quire::bench

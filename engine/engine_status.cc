#include "engine/engine_status.h"

#include "absl/strings/str_format.h"

namespace quire {

std::string MemoryLedger::ToString() const {
  constexpr double kMiB = 1 << 20;
  std::string text;
  int64_t used = 0;
  for (const auto& [what, bytes] : entries) {
    absl::StrAppendFormat(&text, "  %-26s %10.1f MiB\n", what, static_cast<double>(bytes) / kMiB);
    used += bytes;
  }
  absl::StrAppendFormat(&text, "  %-26s %10.1f MiB of %.1f MiB that were free (%.1f MiB in all)",
                        "total", static_cast<double>(used) / kMiB,
                        static_cast<double>(available_bytes) / kMiB,
                        static_cast<double>(total_bytes) / kMiB);
  return text;
}

}  // namespace quire

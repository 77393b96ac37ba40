#include "engine/engine_status.h"

#include "absl/strings/str_format.h"

namespace quire {

namespace {

double ToMiB(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

std::string MemoryLedger::ToString() const {
  std::string text;
  const auto add = [&text](const std::string& what, int64_t bytes) {
    absl::StrAppendFormat(&text, "  %-34s %10.1f MiB\n", what, ToMiB(bytes));
  };
  add("in use before (driver, others)", total_bytes - available_bytes);
  for (const auto& [what, bytes] : entries) add(what, bytes);
  add("free", free_bytes);
  absl::StrAppendFormat(&text, "  %-34s %10.1f MiB", "the device's memory", ToMiB(total_bytes));
  return text;
}

std::string MemoryLedger::ToLine() const {
  std::string text = absl::StrFormat("in use before %.1f", ToMiB(total_bytes - available_bytes));
  for (const auto& [what, bytes] : entries) {
    absl::StrAppendFormat(&text, ", %s %.1f", what, ToMiB(bytes));
  }
  absl::StrAppendFormat(&text, ", free %.1f of %.1f", ToMiB(free_bytes), ToMiB(total_bytes));
  return text;
}

}  // namespace quire

// The key file: whatever it holds, an entry that is taken is one that the door promises, and an
// error names a line and no key. Input: the file.
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "kernels/base/check.h"
#include "server/auth/key_table.h"
#include "tests/fuzz/target.h"

namespace quire::fuzz {
namespace {

constexpr char kKey[] = "correct-horse-battery";

void CheckPrincipal(const Principal& principal) {
  CHECK(!principal.name.empty() && principal.name.size() <= 64) << principal.name;
  for (const char c : principal.name) CHECK(c > ' ' && c < 0x7f && c != ':' && c != '"');
  CHECK(principal.roles != RoleSet()) << principal.name;
  CHECK(principal.weight >= 1 && principal.weight <= kMaxPrincipalWeight) << principal.weight;
  CHECK_GE(principal.limits.max_concurrent_requests, 1);
  CHECK_GE(principal.limits.max_requests_per_minute, 1);
  CHECK(CheckPriority(principal, 0).ok()) << principal.name;
}

}  // namespace

std::vector<std::string> Seeds() {
  return {
      R"({"key": "correct-horse-battery", "name": "alice"})",
      R"({"key": "correct-horse-battery", "name": "alice", "roles": ["admin"], "weight": 2})"
      "\n\n"
      R"({"certificate": "a.example", "name": "bob", "cache_group": "team"})",
      R"({"key_sha256": "0e7a2a0f0d8d4a3a7a1e0f1c0e7a2a0f0d8d4a3a7a1e0f1c0e7a2a0f0d8d4a3a", "name": "c",)"
      R"( "max_concurrent_requests": 1, "max_requests_per_minute": 3,)"
      R"( "min_priority": -4, "max_priority": 5})",
      R"({"key": "correct-horse-battery", "name": "alice"})"
      "\n"
      R"({"key": "another-key-of-hers", "name": "alice"})"};
}

std::vector<std::string> Dictionary() {
  return {"\"key\"",         "\"key_sha256\"",   "\"certificate\"",  "\"name\"", "\"roles\"",
          "\"inference\"",   "\"admin\"",        "\"weight\"",       "alice",    kKey,
          "\"cache_group\"", "\"min_priority\"", "\"max_priority\"", "\n"};
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;  // NOLINT(build/namespaces)
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<KeyTable> table = KeyTable::Parse(text, "keys");
  if (!table.ok()) {
    CHECK(absl::IsInvalidArgument(table.status())) << table.status();
    CHECK(absl::StartsWith(table.status().message(), "keys:")) << table.status();
    return 0;
  }
  ++fuzz::num_accepted;
  if (const auto principal = table->FindKey(fuzz::kKey)) {
    CHECK(absl::StrContains(text, "key")) << text;
    fuzz::CheckPrincipal(*principal);
  }
  if (const auto principal = table->FindCertificate("a.example")) fuzz::CheckPrincipal(*principal);
  CHECK(table->FindKey("") == nullptr);
  return 0;
}

// KeyTable: the entries of one reading of a key file. Keys are kept as SHA-256 only. Immutable;
// any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/auth/principal.h"
#include "server/base/sha256.h"

namespace quire {

inline constexpr size_t kMinKeyBytes = 16;  // nobody guesses that many through a network
inline constexpr size_t kMaxKeyBytes = 512;
inline constexpr size_t kMaxKeyEntries = 4096;  // every call compares with all of them
inline constexpr int64_t kMaxKeyFileBytes = int64_t{4} << 20;

class KeyTable {
 public:
  // Parses JSON lines: one object in each, except blank ones. README.md has the members. `name`
  // begins every error, as "NAME:LINE: ". INVALID_ARGUMENT for anything that is not as it should
  // be, also if there is no entry at all. No error shows a key.
  static absl::StatusOr<KeyTable> Parse(absl::string_view text, absl::string_view name);

  // The owner of this key; null: nobody's key. Takes the same time for every key, however much of a
  // key is right.
  std::shared_ptr<const Principal> FindKey(absl::string_view key) const;
  // The principal with this name in a client certificate; null: no entry.
  std::shared_ptr<const Principal> FindCertificate(absl::string_view certificate_name) const;

  size_t num_keys() const { return digests_.size(); }

 private:
  friend class KeyTableBuilder;

  std::vector<Sha256> digests_;                           // [num_keys]
  std::vector<std::shared_ptr<const Principal>> owners_;  // [num_keys]
  absl::flat_hash_map<std::string, std::shared_ptr<const Principal>> certificates_;
};

}  // namespace quire

#include "server/auth/key_table.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/json/json_reader.h"
#include "kernels/base/status_macros.h"

namespace quire {

namespace {

constexpr size_t kMaxNameBytes = 64;
constexpr size_t kMaxCertificateNameBytes = 256;
constexpr absl::string_view kMembers[] = {"key",
                                          "key_sha256",
                                          "certificate",
                                          "name",
                                          "roles",
                                          "weight",
                                          "max_concurrent_requests",
                                          "max_requests_per_minute",
                                          "min_priority",
                                          "max_priority",
                                          "cache_group"};

bool IsPrintable(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isgraph(c); });
}

// Fit for logs and metrics without quotes; no ':', which begins the names of who has no entry.
bool IsName(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxNameBytes &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-' || c == '@' ||
                  c == '/';
         });
}

struct Entry {
  std::optional<Sha256> key;
  std::optional<std::string> certificate;
  Principal principal;
};

// One line. Only the first failure is kept, as by JsonReader.
class EntryReader {
 public:
  EntryReader(const nlohmann::json& line, const std::string& place)
      : line_(line), reader_(line, place, &status_) {}

  absl::StatusOr<Entry> Read() {
    CheckMembers();
    ReadSecret();
    ReadName();
    ReadRoles();
    ReadLimits();
    RETURN_IF_ERROR(status_);
    return std::move(entry_);
  }

 private:
  void CheckMembers() {
    for (const auto& [name, value] : line_.items()) {
      if (std::find(std::begin(kMembers), std::end(kMembers), name) == std::end(kMembers)) {
        reader_.Fail(absl::StrCat("unknown member ", Shown(name), "; known are ",
                                  absl::StrJoin(kMembers, ", ")));
      }
    }
  }

  // The errors here never show the value: it may be a key.
  std::optional<std::string> SecretText(absl::string_view member) {
    const nlohmann::json* value = reader_.Find(member);
    if (value == nullptr) return std::nullopt;
    if (value->is_string()) return value->get<std::string>();
    reader_.Fail(absl::StrCat(member, " must be a string"));
    return std::nullopt;
  }

  void ReadSecret() {
    const std::optional<std::string> key = SecretText("key");
    const std::optional<std::string> digest = SecretText("key_sha256");
    entry_.certificate = reader_.String("certificate");
    if (key.has_value() + digest.has_value() + entry_.certificate.has_value() != 1) {
      reader_.Fail("must have one of key, key_sha256 and certificate");
    }
    if (key.has_value()) ReadKey(*key);
    if (digest.has_value()) ReadDigest(*digest);
    if (entry_.certificate.has_value() &&
        (entry_.certificate->empty() || entry_.certificate->size() > kMaxCertificateNameBytes)) {
      reader_.Fail(absl::StrCat("certificate must be the name in a client certificate, 1 .. ",
                                kMaxCertificateNameBytes, " bytes"));
    }
  }

  void ReadKey(const std::string& key) {
    if (key.size() < kMinKeyBytes || key.size() > kMaxKeyBytes) {
      reader_.Fail(absl::StrCat("key has ", key.size(), " bytes; allowed are ", kMinKeyBytes,
                                " .. ", kMaxKeyBytes, " (openssl rand -hex 32 makes a good one)"));
    } else if (!IsPrintable(key)) {
      reader_.Fail("key may only have printable ASCII characters, without spaces");
    }
    entry_.key = Sha256Of(key);
  }

  void ReadDigest(const std::string& digest) {
    const bool is_hex =
        std::all_of(digest.begin(), digest.end(), [](char c) { return absl::ascii_isxdigit(c); });
    if (digest.size() != 2 * sizeof(Sha256) || !is_hex) {
      reader_.Fail("key_sha256 must be the 64 hexadecimal digits of the key's SHA-256");
      return;
    }
    const std::string bytes = absl::HexStringToBytes(digest);
    entry_.key.emplace();
    std::memcpy(entry_.key->data(), bytes.data(), bytes.size());
  }

  void ReadName() {
    const std::optional<std::string> name = reader_.String("name");
    if (!name.has_value()) {
      reader_.Fail("has no name");
    } else if (!IsName(*name)) {
      reader_.Fail(absl::StrCat("name is ", Shown(*name), "; it must be 1 .. ", kMaxNameBytes,
                                " letters, digits and . _ - @ /"));
    } else {
      entry_.principal.name = *name;
    }
    const std::string group = reader_.String("cache_group").value_or("");
    if (reader_.Has("cache_group") && !IsName(group)) {
      reader_.Fail(absl::StrCat("cache_group must be 1 .. ", kMaxNameBytes,
                                " letters, digits and . _ - @ /"));
    }
    entry_.principal.cache_group = group;
  }

  void ReadRoles() {
    RoleSet roles;
    for (const std::string& role : reader_.StringList("roles")) {
      if (role == RoleName(Role::kInference)) {
        roles.Add(Role::kInference);
      } else if (role == RoleName(Role::kAdmin)) {
        roles.Add(Role::kAdmin);
      } else {
        reader_.Fail(absl::StrCat("roles has ", Shown(role), "; known are inference and admin"));
      }
    }
    if (!reader_.Has("roles")) roles = {Role::kInference};
    if (roles == RoleSet()) reader_.Fail("roles is empty; known are inference and admin");
    entry_.principal.roles = roles;
  }

  void ReadLimits() {
    PrincipalLimits& limits = entry_.principal.limits;
    entry_.principal.weight =
        static_cast<int32_t>(reader_.Int("weight", 1, kMaxPrincipalWeight).value_or(1));
    const auto limit = [&](absl::string_view member) {
      return reader_.Int(member, 1, kNoLimit).value_or(kNoLimit);
    };
    limits.max_concurrent_requests = limit("max_concurrent_requests");
    limits.max_requests_per_minute = limit("max_requests_per_minute");
    const auto priority = [&](absl::string_view member, int32_t otherwise) {
      return static_cast<int32_t>(
          reader_
              .Int(member, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max())
              .value_or(otherwise));
    };
    limits.min_priority = priority("min_priority", limits.min_priority);
    limits.max_priority = priority("max_priority", limits.max_priority);
    // A request that names no priority has 0, which must be allowed to everybody.
    if (limits.min_priority > 0)
      reader_.Fail("min_priority must be at most 0, the default of requests");
    if (limits.max_priority < 0)
      reader_.Fail("max_priority must be at least 0, the default of requests");
  }

  const nlohmann::json& line_;
  absl::Status status_;
  JsonReader reader_;
  Entry entry_;
};

}  // namespace

// Puts entries together and refuses those that contradict each other.
class KeyTableBuilder {
 public:
  // A sentence about what is wrong with the entry beside earlier ones; empty: added.
  std::string Add(Entry entry) {
    if (table_.digests_.size() + table_.certificates_.size() >= kMaxKeyEntries) {
      return absl::StrCat("is one entry too many; at most ", kMaxKeyEntries, " are read");
    }
    // Several lines with one name are one principal: that is how a key is replaced by another.
    auto& known = principals_[entry.principal.name];
    if (known == nullptr) {
      known = std::make_shared<const Principal>(std::move(entry.principal));
    } else if (!(*known == entry.principal)) {
      return absl::StrCat("\"", known->name,
                          "\" is named by an earlier line with other members; they "
                          "may differ in key, key_sha256 and certificate alone");
    }
    if (entry.certificate.has_value()) {
      const bool is_new = table_.certificates_.emplace(*entry.certificate, known).second;
      return is_new ? "" : "certificate has an earlier line already";
    }
    if (!seen_.insert(*entry.key).second) return "key has an earlier line already";
    table_.digests_.push_back(*entry.key);
    table_.owners_.push_back(known);
    return "";
  }

  KeyTable Take() { return std::move(table_); }

 private:
  absl::flat_hash_map<std::string, std::shared_ptr<const Principal>> principals_;
  absl::flat_hash_set<Sha256> seen_;
  KeyTable table_;
};

absl::StatusOr<KeyTable> KeyTable::Parse(absl::string_view text, absl::string_view name) {
  KeyTableBuilder builder;
  int64_t number = 0;
  int64_t num_entries = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    const std::string place = absl::StrCat(name, ":", number);
    ASSIGN_OR_RETURN(const nlohmann::json object,
                     ParseJsonObject(line, place, DuplicateKeys::kRefused));
    ASSIGN_OR_RETURN(Entry entry, EntryReader(object, place).Read());
    if (const std::string mistake = builder.Add(std::move(entry)); !mistake.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(place, ": ", mistake));
    }
    ++num_entries;
  }
  if (num_entries == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": has no entry; a line is {\"key\": \"...\", \"name\": \"alice\"}"));
  }
  return builder.Take();
}

std::shared_ptr<const Principal> KeyTable::FindKey(absl::string_view key) const {
  const Sha256 digest = Sha256Of(key);
  // No branch and no index depends on the digests until all were compared.
  size_t found = digests_.size();
  for (size_t i = 0; i < digests_.size(); ++i) {
    uint64_t difference = 0;
    for (size_t at = 0; at < sizeof(Sha256); at += sizeof(uint64_t)) {
      uint64_t left = 0;
      uint64_t right = 0;
      std::memcpy(&left, digest.data() + at, sizeof(left));
      std::memcpy(&right, digests_[i].data() + at, sizeof(right));
      difference |= left ^ right;
    }
    // All ones where the digests are equal, else zero.
    const uint64_t equal = ((difference | (0 - difference)) >> 63) - 1;
    found = (found & ~equal) | (i & equal);
  }
  return found < owners_.size() ? owners_[found] : nullptr;
}

std::shared_ptr<const Principal> KeyTable::FindCertificate(
    absl::string_view certificate_name) const {
  const auto it = certificates_.find(certificate_name);
  return it == certificates_.end() ? nullptr : it->second;
}

}  // namespace quire

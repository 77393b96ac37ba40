// Principal: who asks, and what they may do and take: an entry of the key file, a client
// certificate, or nobody in particular at some address. Immutable and shared: a request keeps the
// one that it came with, also when the key file changes. Any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/auth/peer_address.h"

namespace quire {

enum class Role : uint8_t { kInference, kAdmin };

// "inference", "admin".
absl::string_view RoleName(Role role);

class RoleSet {
 public:
  constexpr RoleSet() = default;
  constexpr RoleSet(std::initializer_list<Role> roles) {
    for (const Role role : roles) Add(role);
  }
  constexpr void Add(Role role) { bits_ |= 1u << static_cast<int>(role); }
  constexpr bool Has(Role role) const { return (bits_ & (1u << static_cast<int>(role))) != 0; }
  friend bool operator==(const RoleSet&, const RoleSet&) = default;

 private:
  uint8_t bits_ = 0;
};

inline constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// What one principal may take at a time. kNoLimit: no more than the server allows to all together.
struct PrincipalLimits {
  int64_t max_concurrent_requests = kNoLimit;
  int64_t max_requests_per_minute = kNoLimit;
  // Lower runs first: whoever may not go below zero can stand back for others, never push ahead.
  int32_t min_priority = 0;
  int32_t max_priority = std::numeric_limits<int32_t>::max();
  friend bool operator==(const PrincipalLimits&, const PrincipalLimits&) = default;
};

inline constexpr int32_t kMaxPrincipalWeight = 1 << 10;

struct Principal {
  // Unique, and fit for logs: the key file's names have no ':'; "cert:NAME" and "peer:ADDRESS" are
  // the others.
  std::string name;
  RoleSet roles;
  int32_t weight = 1;  // 1 .. kMaxPrincipalWeight: share of the server beside other principals
  PrincipalLimits limits;
  std::string
      cache_group;  // shares its prefix cache with the others of this group; empty: with none
  friend bool operator==(const Principal&, const Principal&) = default;
};

// Whoever calls from `peer` on a server that has no keys: inference, and from this machine itself
// also admin with any priority.
std::shared_ptr<const Principal> AnonymousPrincipal(const PeerAddress& peer);

// Whoever shows a certificate with this name that the server's CA has signed, and has no entry in
// the key file: inference.
std::shared_ptr<const Principal> CertificatePrincipal(absl::string_view certificate_name);

// PERMISSION_DENIED, naming `what` needs the role ("/quire.v1.Admin/GetStatus") and how to get it.
absl::Status CheckRole(const Principal& principal, Role role, absl::string_view what);

// INVALID_ARGUMENT, naming the limits, when the principal may not ask for this priority.
absl::Status CheckPriority(const Principal& principal, int32_t priority);

// What the scheduler tells principals apart by; never 0. Equal names have the same in one process.
uint64_t FlowId(const Principal& principal);

// What the engine keeps prefix cache entries apart by: 32 bytes, equal only for equal
// `client_salt`s of one principal or of one cache group.
std::string CacheSalt(const Principal& principal, absl::string_view client_salt);

}  // namespace quire

// Principal: who asks, and what they may do and take. It is an entry of the key file, a client
// certificate, or nobody in particular at some address. Immutable and shared: a request keeps the
// principal that it came with, also when the key file changes. Any thread.
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

// The limits of one principal at a time. kNoLimit: only the limits that the server has for all
// together.
struct PrincipalLimits {
  int64_t max_concurrent_requests = kNoLimit;
  int64_t max_requests_per_minute = kNoLimit;
  // Lower runs first. A principal that may not go below zero can stand back for others, but never
  // push ahead.
  int32_t min_priority = 0;
  int32_t max_priority = std::numeric_limits<int32_t>::max();
  friend bool operator==(const PrincipalLimits&, const PrincipalLimits&) = default;
};

inline constexpr int32_t kMaxPrincipalWeight = 1 << 10;

struct Principal {
  // Unique, and fit for logs. Names in the key file have no ':'; the other names are "cert:NAME"
  // and "peer:ADDRESS".
  std::string name;
  RoleSet roles;
  int32_t weight = 1;  // 1 .. kMaxPrincipalWeight: share of the server beside other principals
  PrincipalLimits limits;
  std::string cache_group;  // the group that shares a prefix cache; empty: none is shared
  friend bool operator==(const Principal&, const Principal&) = default;
};

// The principal of a caller from `peer` on a server that has no keys. It has the role inference,
// and from this machine itself also admin with any priority.
std::shared_ptr<const Principal> AnonymousPrincipal(const PeerAddress& peer);

// The principal of a caller that shows a certificate with this name, signed by the server's CA. The
// name has no entry in the key file. The principal has the role inference.
std::shared_ptr<const Principal> CertificatePrincipal(absl::string_view certificate_name);

// PERMISSION_DENIED says that `what` ("/quire.v1.Admin/GetStatus") needs the role, and how to get
// it.
absl::Status CheckRole(const Principal& principal, Role role, absl::string_view what);

// INVALID_ARGUMENT, naming the limits, when the principal may not ask for this priority.
absl::Status CheckPriority(const Principal& principal, int32_t priority);

// The scheduler tells principals apart by this; never 0. Equal names have the same id in one
// process.
uint64_t FlowId(const Principal& principal);

// The engine keeps prefix cache entries apart by this: 32 bytes, equal only for equal
// `client_salt`s of one principal or of one cache group.
std::string CacheSalt(const Principal& principal, absl::string_view client_salt);

}  // namespace quire

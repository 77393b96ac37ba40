#include "server/auth/principal.h"

#include <algorithm>

#include "absl/hash/hash.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/sha256.h"

namespace quire {

namespace {

constexpr char kPeerPrefix[] = "peer:";

}  // namespace

absl::string_view RoleName(Role role) {
  switch (role) {
    case Role::kInference:
      return "inference";
    case Role::kAdmin:
      return "admin";
  }
  return "";
}

std::shared_ptr<const Principal> AnonymousPrincipal(const PeerAddress& peer) {
  auto principal = std::make_shared<Principal>();
  principal->name = absl::StrCat(kPeerPrefix, peer.name());
  principal->roles = {Role::kInference};
  if (peer.is_loopback()) {
    principal->roles.Add(Role::kAdmin);
    principal->limits.min_priority = std::numeric_limits<int32_t>::min();
  }
  return principal;
}

std::shared_ptr<const Principal> CertificatePrincipal(absl::string_view certificate_name) {
  auto principal = std::make_shared<Principal>();
  principal->name = absl::StrCat("cert:", certificate_name);
  principal->roles = {Role::kInference};
  return principal;
}

absl::Status CheckRole(const Principal& principal, Role role, absl::string_view what) {
  if (principal.roles.Has(role)) return absl::OkStatus();
  const absl::string_view advice =
      absl::StartsWith(principal.name, kPeerPrefix)
          ? "a server without keys gives it to this machine alone; start it with --api-key-file "
            "and use a key that has the role"
          : "the server's key file gives roles";
  return absl::PermissionDeniedError(absl::StrCat(what, " needs the role ", RoleName(role),
                                                  ", which \"", principal.name,
                                                  "\" does not have; ", advice));
}

absl::Status CheckPriority(const Principal& principal, int32_t priority) {
  const PrincipalLimits& limits = principal.limits;
  if (priority >= limits.min_priority && priority <= limits.max_priority) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      priority, " is out of range; allowed for \"", principal.name, "\" is ", limits.min_priority,
      " .. ", limits.max_priority, " (lower runs first; the server's key file sets the range)"));
}

uint64_t FlowId(const Principal& principal) {
  return std::max<uint64_t>(1, absl::HashOf(principal.name));
}

std::string CacheSalt(const Principal& principal, absl::string_view client_salt) {
  // The kind and the length keep every pair of owner and salt apart from every other.
  const bool is_group = !principal.cache_group.empty();
  const std::string& owner = is_group ? principal.cache_group : principal.name;
  const Sha256 digest = Sha256Of(
      absl::StrCat(is_group ? "group " : "principal ", owner.size(), " ", owner, client_salt));
  return std::string(digest.begin(), digest.end());
}

}  // namespace quire

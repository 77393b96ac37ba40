// Gate: the one place that decides who may call which method. It refuses everything that is not
// allowed by name. Immutable; any thread.
#pragma once

#include <google/protobuf/descriptor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/auth/authenticator.h"
#include "server/auth/principal.h"

namespace quire {

// Who may call a service that is not ours and declares no roles.
enum class Access : uint8_t {
  kAnyone,  // also callers that show no key, or a wrong one
  kKnown,   // every caller that the authenticator lets in, with any role
  kNobody,  // as if there were no such service
};

struct GateOptions {
  Access health = Access::kAnyone;
  Access reflection = Access::kKnown;
};

class Gate {
 public:
  // Every method of `services` must declare its role.
  Gate(absl::Span<const google::protobuf::ServiceDescriptor* const> services,
       const GateOptions& options, Authenticator authenticator);

  // The caller of `path`, "/quire.v1.Inference/Generate". UNAUTHENTICATED, PERMISSION_DENIED, or
  // UNIMPLEMENTED for a method that does not exist; only callers that are let in at all get the
  // last.
  absl::StatusOr<std::shared_ptr<const Principal>> Admit(absl::string_view path,
                                                         const Credentials& credentials) const;

  // The caller that asks for `what`, which is not a gRPC method and needs `role`. Without a role it
  // is open to everyone who may ask for health. The same errors as Admit.
  absl::StatusOr<std::shared_ptr<const Principal>> AdmitTo(absl::string_view what,
                                                           std::optional<Role> role,
                                                           const Credentials& credentials) const;

  const Authenticator& authenticator() const { return authenticator_; }

 private:
  absl::StatusOr<std::shared_ptr<const Principal>> AdmitAs(absl::string_view what,
                                                           std::optional<Role> role, Access access,
                                                           const Credentials& credentials) const;
  Access ForeignAccess(absl::string_view path) const;

  GateOptions options_;
  Authenticator authenticator_;
  absl::flat_hash_map<std::string, Role> roles_;  // by path
};

}  // namespace quire

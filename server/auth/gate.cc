#include "server/auth/gate.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "server/auth/method_role.h"

namespace quire {

namespace {

constexpr absl::string_view kHealth = "/grpc.health.v1.Health/";
constexpr absl::string_view kReflection[] = {"/grpc.reflection.v1.ServerReflection/",
                                             "/grpc.reflection.v1alpha.ServerReflection/"};

}  // namespace

Gate::Gate(absl::Span<const google::protobuf::ServiceDescriptor* const> services,
           const GateOptions& options, Authenticator authenticator)
    : options_(options), authenticator_(std::move(authenticator)) {
  for (const google::protobuf::ServiceDescriptor* service : services) {
    for (int i = 0; i < service->method_count(); ++i) {
      const google::protobuf::MethodDescriptor& method = *service->method(i);
      const std::optional<Role> role = RequiredRole(method);
      CHECK(role.has_value()) << method.full_name() << " declares no required_role";
      roles_.emplace(absl::StrCat("/", service->full_name(), "/", method.name()), *role);
    }
  }
}

absl::StatusOr<std::shared_ptr<const Principal>> Gate::Admit(absl::string_view path,
                                                             const Credentials& credentials) const {
  const auto role = roles_.find(path);
  if (role == roles_.end()) {
    return AdmitAs(path, std::nullopt, ForeignAccess(path), credentials);
  }
  return AdmitAs(path, role->second, Access::kKnown, credentials);
}

absl::StatusOr<std::shared_ptr<const Principal>> Gate::AdmitTo(
    absl::string_view what, std::optional<Role> role, const Credentials& credentials) const {
  return AdmitAs(what, role, role.has_value() ? Access::kKnown : options_.health, credentials);
}

absl::StatusOr<std::shared_ptr<const Principal>> Gate::AdmitAs(
    absl::string_view what, std::optional<Role> role, Access access,
    const Credentials& credentials) const {
  absl::StatusOr<std::shared_ptr<const Principal>> principal =
      authenticator_.Authenticate(credentials);
  if (!principal.ok() && access == Access::kAnyone) return AnonymousPrincipal(credentials.peer);
  RETURN_IF_ERROR(principal.status());
  if (access == Access::kNobody) {
    return absl::UnimplementedError("this server has no such method");
  }
  if (role.has_value()) RETURN_IF_ERROR(CheckRole(**principal, *role, what));
  return principal;
}

Access Gate::ForeignAccess(absl::string_view path) const {
  if (absl::StartsWith(path, kHealth)) return options_.health;
  for (const absl::string_view service : kReflection) {
    if (absl::StartsWith(path, service)) return options_.reflection;
  }
  return Access::kNobody;
}

}  // namespace quire

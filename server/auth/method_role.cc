#include "server/auth/method_role.h"

#include "quire/v1/inference.pb.h"

namespace quire {

std::optional<Role> RequiredRole(const google::protobuf::MethodDescriptor& method) {
  switch (method.options().GetExtension(v1::required_role)) {
    case v1::ROLE_INFERENCE:
      return Role::kInference;
    case v1::ROLE_ADMIN:
      return Role::kAdmin;
    default:
      return std::nullopt;
  }
}

}  // namespace quire

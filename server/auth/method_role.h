// Which role a method asks for: its option quire.v1.required_role, in the .proto beside it. Pure;
// any thread.
#pragma once

#include <google/protobuf/descriptor.h>

#include <optional>

#include "server/auth/principal.h"

namespace quire {

// Nothing: the method declares no role, so nobody may call it.
std::optional<Role> RequiredRole(const google::protobuf::MethodDescriptor& method);

}  // namespace quire

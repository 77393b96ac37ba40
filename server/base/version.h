// The version that --version, GetModel and the bundle state; QUIRE_VERSION comes from CMake.
#pragma once

namespace quire {

inline constexpr char kVersion[] = QUIRE_VERSION;

}  // namespace quire

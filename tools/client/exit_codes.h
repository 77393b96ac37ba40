// Exit codes of the client programs.
#pragma once

namespace quire::client {

inline constexpr int kOk = 0;
inline constexpr int kCallFailed = 1;
inline constexpr int kUsage = 64;
inline constexpr int kNotServing = 69;
inline constexpr int kInterrupted = 130;

}  // namespace quire::client

// The log of quire-server: one line per event on standard error, as text or as JSON. Main thread,
// before others log.
#pragma once

#include <cstdint>
#include <string>

namespace quire {

enum class LogFormat : uint8_t {
  kText,  // 2026-11-23T04:05:06.789 info MESSAGE, in local time
  kJson,  // {"time":"2026-11-23T04:05:06.789Z","level":"info","message":"MESSAGE"}
};

// The logger of this name writes, with kJson, the members of its lines and not a message:
// access_log.h.
inline constexpr char kAccessLogger[] = "access";

// Makes spdlog's default logger, and kAccessLogger on the same output. `level` is one of the
// setting's choices. What Protobuf has to say goes there too.
void SetUpLog(const std::string& level, LogFormat format);

}  // namespace quire

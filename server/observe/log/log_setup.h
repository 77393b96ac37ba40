// The log of quire-server: one line per event on standard error, as text or as JSON. The log's own
// thread writes it (log_writer.h), so a thread that logs never waits for a reader. The main thread
// calls SetUpLog, before others log.
#pragma once

#include <cstdint>
#include <string>

namespace quire {

enum class LogFormat : uint8_t {
  kText,  // 2026-11-23T04:05:06.789 info MESSAGE, in local time
  kJson,  // {"time":"2026-11-23T04:05:06.789Z","level":"info","message":"MESSAGE"}
};

// The logger of this name is for access_log.h: with kJson it writes the members of its lines, and
// not a message.
inline constexpr char kAccessLogger[] = "access";
// The same, with the message among the members.
inline constexpr char kMembersLogger[] = "members";

// Makes spdlog's default logger, and the others on the same output. `level` is one of the setting's
// choices. Protobuf's messages go there too.
void SetUpLog(const std::string& level, LogFormat format);

// Logs `text` for people, or the `members` of a JSON object, a message among them, for programs.
void LogMembers(LogFormat format, const std::string& text, const std::string& members);

}  // namespace quire

#include "server/observe/log/json_formatter.h"

#include <spdlog/details/log_msg.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/observe/log/log_setup.h"
#include "server/text/json_text.h"

namespace quire {

void JsonFormatter::format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) {
  const absl::string_view payload(message.payload.data(), message.payload.size());
  const absl::string_view logger(message.logger_name.data(), message.logger_name.size());
  const auto level = spdlog::level::to_string_view(message.level);
  std::string text =
      absl::StrCat("{\"time\":\"",
                   absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", absl::FromChrono(message.time),
                                    absl::UTCTimeZone()),
                   "\",\"level\":\"", absl::string_view(level.data(), level.size()), "\",");
  if (logger == kAccessLogger) {
    absl::StrAppend(&text, "\"message\":\"access\",", payload);
  } else if (logger == kMembersLogger) {
    absl::StrAppend(&text, payload);
  } else {
    absl::StrAppend(&text, "\"message\":", JsonString(payload));
  }
  text += "}\n";
  line.append(text.data(), text.data() + text.size());
}

std::unique_ptr<spdlog::formatter> JsonFormatter::clone() const {
  return std::make_unique<JsonFormatter>();
}

}  // namespace quire

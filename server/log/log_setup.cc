#include "server/log/log_setup.h"

#include <google/protobuf/stubs/logging.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <memory>

#include "absl/time/clock.h"
#include "server/base/throttle.h"
#include "server/log/json_formatter.h"

namespace quire {

namespace {

spdlog::level::level_enum LevelOf(google::protobuf::LogLevel level) {
  switch (level) {
    case google::protobuf::LOGLEVEL_INFO:
      return spdlog::level::debug;
    case google::protobuf::LOGLEVEL_WARNING:
      return spdlog::level::warn;
    default:
      return spdlog::level::err;
  }
}

// Clients can cause such lines, so they are few. A fatal one ends the process afterwards.
void LogForProtobuf(google::protobuf::LogLevel level, const char* file, int line,
                    const std::string& message) {
  static Throttle throttle(absl::Seconds(1));
  if (level != google::protobuf::LOGLEVEL_FATAL && !throttle.Pass(absl::Now())) return;
  spdlog::log(LevelOf(level), "Protobuf, {}:{}: {}", file, line, message);
}

}  // namespace

void SetUpLog(const std::string& level, LogFormat format) {
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  if (format == LogFormat::kJson) {
    sink->set_formatter(std::make_unique<JsonFormatter>());
  } else {
    // On a terminal a line may come while a progress bar is shown: it wipes it.
    const std::string wipe = isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "";
    sink->set_pattern(wipe + "%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  }
  for (const char* name : {"quire", kAccessLogger}) {
    auto logger = std::make_shared<spdlog::logger>(name, sink);
    logger->set_level(spdlog::level::from_str(level));
    spdlog::drop(name);
    spdlog::register_logger(logger);
    if (name != std::string(kAccessLogger)) spdlog::set_default_logger(std::move(logger));
  }
  google::protobuf::SetLogHandler(&LogForProtobuf);
}

}  // namespace quire

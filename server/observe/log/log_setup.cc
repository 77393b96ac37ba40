#include "server/observe/log/log_setup.h"

#include <google/protobuf/stubs/logging.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/clock.h"
#include "server/base/throttle.h"
#include "server/observe/log/json_formatter.h"
#include "server/observe/log/log_writer.h"

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

std::string Formatted(spdlog::formatter& formatter, const spdlog::details::log_msg& message) {
  spdlog::memory_buf_t line;
  formatter.format(message, line);
  return std::string(line.data(), line.size());
}

// Leaves the lines to the log's thread. The mutex is for the formatter; nobody waits within it.
class QueueSink final : public spdlog::sinks::base_sink<std::mutex> {
 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    StandardError().Write(Formatted(*formatter_, message), message.level >= spdlog::level::warn
                                                               ? LogWriter::Importance::kWarning
                                                               : LogWriter::Importance::kLine);
  }
  void flush_() override {}
};

// In the log's own format, which `formatter` has.
LogWriter::SayOmitted OmittedLine(std::shared_ptr<spdlog::formatter> formatter, LogFormat format) {
  return [formatter = std::move(formatter), format](int64_t num_lines) {
    const bool is_json = format == LogFormat::kJson;
    const std::string text =
        is_json ? absl::StrCat("\"message\":\"log lines left out\",\"omitted_lines\":", num_lines)
                : absl::StrCat("log lines left out, for nobody read them in time: ", num_lines);
    return Formatted(*formatter, spdlog::details::log_msg(is_json ? kMembersLogger : "quire",
                                                          spdlog::level::warn, text));
  };
}

// Clients can cause such lines, so they are few. A fatal one ends the process afterwards.
void LogForProtobuf(google::protobuf::LogLevel level, const char* file, int line,
                    const std::string& message) {
  static Throttle throttle(absl::Seconds(1));
  if (level != google::protobuf::LOGLEVEL_FATAL && !throttle.Pass(MonotonicNow())) return;
  spdlog::log(LevelOf(level), "Protobuf, {}:{}: {}", file, line, message);
  if (level == google::protobuf::LOGLEVEL_FATAL) FlushLog();
}

}  // namespace

void SetUpLog(const std::string& level, LogFormat format) {
  std::unique_ptr<spdlog::formatter> formatter;
  if (format == LogFormat::kJson) {
    formatter = std::make_unique<JsonFormatter>();
  } else {
    // On a terminal a line may come while a progress bar is shown: it wipes it.
    const std::string wipe = isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "";
    formatter =
        std::make_unique<spdlog::pattern_formatter>(wipe + "%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  }
  StandardError().SetSayOmitted(OmittedLine(formatter->clone(), format));
  auto sink = std::make_shared<QueueSink>();
  sink->set_formatter(std::move(formatter));
  for (const char* name : {"quire", kAccessLogger, kMembersLogger}) {
    auto logger = std::make_shared<spdlog::logger>(name, sink);
    logger->set_level(spdlog::level::from_str(level));
    spdlog::drop(name);
    spdlog::register_logger(logger);
    if (name == std::string("quire")) spdlog::set_default_logger(std::move(logger));
  }
  google::protobuf::SetLogHandler(&LogForProtobuf);
}

void LogMembers(LogFormat format, const std::string& text, const std::string& members) {
  if (format == LogFormat::kText) {
    spdlog::info("{}", text);
  } else if (const auto logger = spdlog::get(kMembersLogger)) {
    logger->info("{}", members);
  }
}

}  // namespace quire

// JsonFormatter: spdlog's lines as JSON objects. One thread at a time; spdlog's sinks see to that.
#pragma once

#include <spdlog/formatter.h>

#include <memory>

namespace quire {

class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override;
  std::unique_ptr<spdlog::formatter> clone() const override;
};

}  // namespace quire

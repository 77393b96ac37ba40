#include "server/log/json_text.h"

#include <nlohmann/json.hpp>

namespace quire {

std::string JsonString(absl::string_view text) {
  return nlohmann::json(std::string(text))
      .dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

}  // namespace quire

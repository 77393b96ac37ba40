#include "server/surfaces/openai/tokenizer_info.h"

#include <nlohmann/json.hpp>

#include "engine/json/json_reader.h"
#include "kernels/base/status_macros.h"

namespace quire {

namespace {

using Json = nlohmann::json;

// {"content": "<s>", "lstrip": false, ...} -> "<s>". The parser has bounded the depth.
Json WithPlainTokens(const Json& value) {
  if (value.is_object()) {
    if (const auto content = value.find("content"); content != value.end()) return *content;
    Json plain = Json::object();
    for (const auto& [key, member] : value.items()) plain[key] = WithPlainTokens(member);
    return plain;
  }
  if (!value.is_array()) return value;
  Json plain = Json::array();
  for (const Json& item : value) plain.push_back(WithPlainTokens(item));
  return plain;
}

}  // namespace

absl::StatusOr<std::string> TokenizerInfo(absl::string_view config_text,
                                          absl::string_view chat_template) {
  Json config = Json::object();
  if (!config_text.empty()) {
    ASSIGN_OR_RETURN(config, ParseModelJson(config_text, "tokenizer_config.json"));
  }
  Json info = Json::object();
  for (const auto& [key, value] : config.items()) {
    if (key != "vocab_file" && key != "merges_file") info[key] = WithPlainTokens(value);
  }
  if (!info.contains("tokenizer_class")) info["tokenizer_class"] = "PreTrainedTokenizerFast";
  if (!chat_template.empty()) info["chat_template"] = std::string(chat_template);
  return info.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace quire

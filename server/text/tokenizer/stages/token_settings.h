// TokenSettings: the settings of tokens in the files beside tokenizer.json, put together as
// transformers does. Plain values; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/text/tokenizer/stages/added_tokens.h"

namespace quire {

// A token that a file names, such as "bos_token": its text, and the file for errors. No text: none.
struct NamedToken {
  std::string text;
  std::string_view file;
};

struct TokenSettings {
  NamedToken bos;
  NamedToken eos;
  // For AddedTokens::Add, in this order.
  std::vector<AddedTokenSetting> added;

  // From the texts of tokenizer_config.json, special_tokens_map.json and added_tokens.json; an
  // empty text is a file that is not there. The second and third count only if the first has no
  // "added_tokens_decoder", and then the second wins. add_bos_token and add_eos_token do not count
  // beside a tokenizer.json, whose post_processor says it. INVALID_ARGUMENT or UNIMPLEMENTED, with
  // file and key, for a setting that cannot be read or would encode text otherwise.
  static absl::StatusOr<TokenSettings> Parse(std::string_view config_json,
                                             std::string_view special_tokens_map_json,
                                             std::string_view added_tokens_json);
};

}  // namespace quire

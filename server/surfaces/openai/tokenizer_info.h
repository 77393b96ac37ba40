// What /tokenizer_info answers, as vLLM's does: the model's tokenizer_config.json with the chat
// template that is in use. Made once, at start; plain function.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace quire {

// `config_text` is that of tokenizer_config.json, empty where the model has none; `chat_template`
// is empty where there is none. Added tokens are their text, and names of files are left out.
// INVALID_ARGUMENT where the text is no JSON object.
absl::StatusOr<std::string> TokenizerInfo(absl::string_view config_text,
                                          absl::string_view chat_template);

}  // namespace quire

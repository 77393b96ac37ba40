// The answer of /tokenizer_info, in vLLM's form: the model's tokenizer_config.json with the chat
// template that is in use. Made once, at start; plain function.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace quire {

// `config_text` is the text of tokenizer_config.json, empty if the model has none; `chat_template`
// is empty if there is none. Added tokens are their text, and names of files are left out.
// INVALID_ARGUMENT if the text is no JSON object.
absl::StatusOr<std::string> TokenizerInfo(absl::string_view config_text,
                                          absl::string_view chat_template);

}  // namespace quire

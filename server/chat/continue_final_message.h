// continue_final_message: the prompt ends where the last message's content ends, as transformers
// cuts it.
#pragma once

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "server/chat/jinja/values/text.h"

namespace quire {

// Drops what the template wrote after the content of the last message. INVALID_ARGUMENT if that
// content is not a text, or the rendered text does not contain it.
absl::Status CutAfterFinalMessage(const nlohmann::ordered_json& messages, jinja::Text* rendered);

}  // namespace quire

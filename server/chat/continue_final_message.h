// continue_final_message: the prompt ends where the last message's content ends, as transformers
// cuts it.
#pragma once

#include "absl/status/status.h"
#include "server/chat/jinja/values/text.h"
#include "server/chat/jinja/values/value.h"

namespace quire {

// Drops what the template wrote after the content of the last message. INVALID_ARGUMENT if that
// content is not a text, or the rendered text does not contain it.
absl::Status CutAfterFinalMessage(const jinja::Value& messages, jinja::Text* rendered);

}  // namespace quire

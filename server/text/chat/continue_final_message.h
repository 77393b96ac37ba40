// continue_final_message: the prompt ends where the last message's content ends, as transformers
// cuts it: a mark stands there while the template renders.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/text/chat/jinja/values/text.h"
#include "server/text/chat/jinja/values/value.h"

namespace quire {

// The messages with the mark behind the last one's text: a string, or the last text part of a list
// of parts. INVALID_ARGUMENT if it has none.
absl::StatusOr<jinja::Value> MarkFinalMessage(const jinja::Value& messages);

// Drops the mark and the text that the template wrote after it. `messages` are without the mark.
// INVALID_ARGUMENT if the rendered text does not contain the mark, or not the text of the last
// message.
absl::Status CutAtMark(const jinja::Value& messages, jinja::Text* rendered);

}  // namespace quire

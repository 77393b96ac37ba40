// From quire.v1.Messages to what a chat template sees. Pure; any thread.
#pragma once

#include "absl/status/statusor.h"
#include "quire/v1/inference.pb.h"
#include "server/chat/chat_template.h"

namespace quire {

// INVALID_ARGUMENT names the field: no messages, too many, a role that is empty, JSON of the wrong
// kind. The tokens that begin and end a sequence are the caller's to fill in.
absl::StatusOr<RenderInput> ConvertMessages(const v1::Messages& messages);

}  // namespace quire

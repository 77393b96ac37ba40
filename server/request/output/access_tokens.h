// What the access log says of a generate request comes from its responses. Pure; any thread.
#pragma once

#include "quire/v1/inference.pb.h"
#include "server/observe/log/access_entry.h"

namespace quire {

// As OpenAI and vLLM write it: "stop", "length", "abort".
const char* FinishReasonName(v1::FinishReason reason);

// Takes id, tokens and times from a response that is on its way to the client, whatever its kind;
// to be called with each one of a request.
void NoteResponse(const v1::GenerateResponse& response, AccessEntry* entry);

}  // namespace quire

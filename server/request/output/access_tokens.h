// The access log learns about a generate request from the parts of its answer. Pure; any thread.
#pragma once

#include "server/observe/log/access_entry.h"
#include "server/request/answer.h"

namespace quire {

// Takes id, tokens and times from a part that is on its way to the client; to be called with each
// part of an answer.
void NotePart(const AnswerPart& part, AccessEntry* entry);

}  // namespace quire

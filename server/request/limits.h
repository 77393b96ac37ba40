// The limits of one request that are the server's own, checked before anything is allocated in
// proportion to them. Those that keep the engine from harm are in engine/request_check.h, those of
// a text in server/tokenizer/tokenizer.h, those of a chat template's render in server/chat/. Part
// of the wire contract: the sentences that refuse a request quote them.
#pragma once

#include <cstddef>

namespace quire {

// A whole request in bytes: what the server reads before it can check anything.
inline constexpr size_t kMaxRequestBytes = size_t{4} << 20;

// Kept for as long as the request runs, and repeated in logs and answers.
inline constexpr size_t kMaxRequestIdBytes = 128;
// Hashed with every block of the prompt.
inline constexpr size_t kMaxCacheSaltBytes = 128;

// Each stop string is looked for in every piece of text, which holds back up to its length.
inline constexpr size_t kMaxStopStrings = 16;
inline constexpr size_t kMaxStopStringBytes = 256;

// Each message is a JSON object that the chat template walks over.
inline constexpr size_t kMaxMessages = 4096;

// Requests up to this size are tokenized on the transport's thread, longer ones in the work pool,
// so that no long text holds up the calls behind it.
inline constexpr size_t kMaxInlineBytes = 8192;
// Requests that wait for the work pool; each holds up to kMaxRequestBytes.
inline constexpr size_t kMaxQueuedWork = 256;

}  // namespace quire

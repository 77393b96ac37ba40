// The limits of one request that belong to the server itself, checked before anything is allocated
// in proportion to them. The limits that keep the engine from harm are in engine/request_check.h,
// the limits of a text in server/text/tokenizer/tokenizer.h, the limits of rendering a chat
// template in server/text/chat/. They are part of the wire contract: the sentences that refuse a
// request quote them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire {

// A whole request in bytes: the server reads this much before it can check anything.
inline constexpr size_t kMaxRequestBytes = size_t{4} << 20;

// Kept for as long as the request runs, and repeated in logs and answers.
inline constexpr size_t kMaxRequestIdBytes = 128;
// Hashed with every block of the prompt.
inline constexpr size_t kMaxCacheSaltBytes = 128;

// Each stop string is looked for in every piece of text, which holds back up to its length.
inline constexpr size_t kMaxStopStrings = 64;
inline constexpr size_t kMaxStopStringBytes = 256;

// Looked for whenever a special token comes.
inline constexpr size_t kMaxShownSpecialTokens = 64;

// Each message is a JSON object that the chat template walks over.
inline constexpr size_t kMaxMessages = 4096;

// The most that the server keeps of all clients' answers until they end, because the clients want
// them whole. A principal may have half of what the others leave, and an answer half of that.
inline constexpr int64_t kMaxKeptAnswerBytes = int64_t{1} << 30;

// An answer in one piece, and a piece of a stream: the most that a connection may hold while it is
// not read, a quarter of what all may hold (ConnectionPoolOptions). Nobody computes more in vain.
inline constexpr size_t kMaxAnswerBytes = size_t{8} << 20;

// Requests up to this size are tokenized on the transport's thread, longer ones in the work pool,
// so that no long text holds up the calls behind it.
inline constexpr size_t kMaxInlineBytes = 8192;
// The work that may wait for the work pool, in requests and in bytes of memory.
inline constexpr size_t kMaxQueuedWork = 256;
inline constexpr size_t kMaxQueuedWorkBytes = size_t{12} << 20;

// The steps that a request may take until it has tokens (Fuel): some 35 ms of a worker, and 70 ms
// for each MB (hostile requests up to 50 and 100).
inline constexpr size_t kBaseSteps = 1'000'000;
inline constexpr size_t kStepsPerByte = 2;
// For each message of a chat, however short, and for each pair of messages. The templates of
// Command R7B and A, DeepSeek V3.2, Gemma 4 and gpt-oss look at all messages for each message of
// one kind. With 1,200 messages they take 0.3 to 1 s of a worker, and Command A's with reasoning
// takes 2.5 s (45 million steps). Nothing takes more.
inline constexpr size_t kStepsPerMessage = 500;
inline constexpr size_t kStepsPerPair = 32;
inline constexpr size_t kMaxCountedMessages = 1280;
// This many bytes count as a message. Otherwise a request of few bytes could cost as much.
inline constexpr size_t kBytesPerCountedMessage = 64;
// How long the text of a chat may become, in the template's own words and in the request's.
inline constexpr size_t kBaseRenderedBytes = size_t{1} << 20;
inline constexpr size_t kRenderedBytesPerByte = 4;

}  // namespace quire

// ResponseItems: the items of a response's output, one after the other: reasoning, messages, calls
// of functions; and the events that tell a stream of them. One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/string_view.h"
#include "server/surfaces/openai/openai_json.h"
#include "server/surfaces/responses/responses_request.h"
#include "server/text/answer/answer_events.h"

namespace quire {

class ResponseItems {
 public:
  // The format outlives the items.
  explicit ResponseItems(const ResponsesFormat* format) : format_(*format) {}

  // Each returns the events of a stream; nothing if the answer is sent whole.
  std::string BeginMessage() { return Begin(AnswerEvent::Kind::kContent, ""); }
  // `text` may be empty. `logprobs` are for the text of a message.
  std::string Add(AnswerEvent::Kind kind, absl::string_view text, const LogprobJson& logprobs);
  // The answer ends; if it has no item yet, it is an empty message.
  std::string Finish(absl::string_view status);

  // An event of any kind, numbered; `members` follow its type and number.
  std::string Event(absl::string_view type, absl::string_view members);

  // Items that have ended, as members of a list.
  const std::string& ended() const { return ended_; }

 private:
  struct Item {
    AnswerEvent::Kind kind;  // kContent, kReasoning or kCall
    std::string id;
    std::string members = {};  // for a call: its name
    std::string text = {};     // or arguments
    LogprobJson logprobs = {};
  };

  std::string Begin(AnswerEvent::Kind kind, absl::string_view name);
  std::string End(absl::string_view status);

  // The beginning of an event's type, and the members of its events that say where the text is.
  absl::string_view TextType() const;
  std::string Place() const;
  std::string TextEvent(absl::string_view suffix, absl::string_view key, absl::string_view text,
                        const LogprobJson& logprobs);
  std::string PartEvent(absl::string_view suffix, absl::string_view text,
                        const LogprobJson& logprobs);
  std::string ItemEvent(absl::string_view suffix, absl::string_view json);

  std::string Part(absl::string_view text, const LogprobJson& logprobs) const;
  std::string ItemJson(absl::string_view status) const;

  const ResponsesFormat& format_;
  std::optional<Item> item_;  // the open one
  std::string ended_;
  int64_t num_ended_ = 0;
  int64_t num_events_ = 0;
};

}  // namespace quire

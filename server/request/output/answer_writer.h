// AnswerWriter: tells a client the answer to one request, as its surface does. Write and End are
// called by one thread at a time: first the one that starts the request, then the output thread.
// They must not block.
#pragma once

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/base/types.h"
#include "server/observe/log/access_entry.h"
#include "server/request/answer.h"

namespace quire {

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  // Called at most once, before the first Write: the tokens that the answer follows.
  virtual void TakePrompt(absl::Span<const TokenId>) {}

  // Whether the writer keeps all parts until the end, instead of passing them on.
  virtual bool KeepsAnswer() const { return false; }

  // If it keeps them: about how many bytes a part adds to the answer.
  virtual size_t AnswerBytes(const AnswerPart& part) const { return NumBytes(part, kMessageBytes); }

  // Begins to write a part. The next one comes only after `on_ready` was called, which may happen
  // on any thread, also inside Write, and also after the end.
  virtual void Write(AnswerPart part, const std::function<void()>& on_ready) = 0;

  // The last call: all was written, or the request ended early. It may come while a part is under
  // way; that part may then be lost if the status is an error. `access` tells what the access log
  // says of the request.
  virtual void End(const absl::Status& status, AccessEntry access) = 0;
};

}  // namespace quire

// ResponseSink: where the responses of one request go; a transport implements it. Send and End
// are called by one thread at a time: first the one that starts the request, then the output
// thread. They must not block.
#pragma once

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/base/types.h"
#include "quire/v1/inference.pb.h"

namespace quire {

class ResponseSink {
 public:
  virtual ~ResponseSink() = default;

  // Called once, before the first Send: what to call when the next Send may come.
  virtual void SetReadyCallback(std::function<void()> on_ready) = 0;

  // Called at most once, before the first Send: the tokens that the answer follows.
  virtual void TakePrompt(absl::Span<const TokenId>) {}

  // Whether it keeps all that it is sent until the last, instead of passing it on.
  virtual bool KeepsAnswer() const { return false; }

  // Of those that keep it: by how much a response lets the answer grow, roughly.
  virtual size_t AnswerBytes(const v1::GenerateResponse& response) const {
    return response.ByteSizeLong();
  }

  // Begins to send. One at a time: the next Send or SendLast comes only after the sink has
  // called its ready callback (from any thread, also from inside Send).
  virtual void Send(v1::GenerateResponse response) = 0;

  // The last call: everything was sent, or the request ended early. End may come while a Send is
  // still under way; what that was sending may then be lost. The sink may be gone when these
  // return.
  virtual void SendLast(v1::GenerateResponse response) = 0;
  virtual void End(const absl::Status& status) = 0;
};

}  // namespace quire

// RequestFuel: the Fuel of one request, by its size in bytes and in messages. One thread; any
// thread may use the token.
#pragma once

#include <algorithm>
#include <cstddef>

#include "server/base/fuel.h"
#include "server/request/cancel_token.h"
#include "server/request/limits.h"

namespace quire {

class RequestFuel : public Fuel {
 public:
  // `num_messages` of a chat, else 0. `token`, which may be null, outlives the fuel.
  RequestFuel(size_t num_bytes, size_t num_messages, const CancelToken* token)
      : Fuel(StepsFor(num_bytes, num_messages), token == nullptr ? nullptr : &token->flag()) {}

 private:
  static constexpr size_t StepsFor(size_t num_bytes, size_t num_messages) {
    const size_t num_counted =
        std::min({num_messages, num_bytes / kBytesPerCountedMessage, kMaxCountedMessages});
    return kBaseSteps + kStepsPerByte * num_bytes +
           num_counted * (kStepsPerMessage + kStepsPerPair * num_counted);
  }
};

}  // namespace quire

// RequestFuel: the Fuel of one request, by its size. One thread; the token is anybody's.
#pragma once

#include <cstddef>

#include "server/base/fuel.h"
#include "server/request/cancel_token.h"
#include "server/request/limits.h"

namespace quire {

class RequestFuel : public Fuel {
 public:
  // For a request of so many bytes. `token`, which may be null, outlives the fuel.
  RequestFuel(size_t num_bytes, const CancelToken* token)
      : Fuel(kBaseSteps + kStepsPerByte * num_bytes, token == nullptr ? nullptr : &token->flag()) {}
};

}  // namespace quire

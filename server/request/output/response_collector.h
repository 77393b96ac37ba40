// ResponseCollector: merges the responses of one request into the answer of GenerateOnce. Pure; one
// thread at a time.
#pragma once

#include "quire/v1/inference.pb.h"

namespace quire {

class ResponseCollector {
 public:
  void Add(v1::GenerateResponse response);
  v1::GenerateOnceResponse Take() { return std::move(answer_); }

 private:
  v1::Choice& ChoiceAt(int32_t index);

  v1::GenerateOnceResponse answer_;
};

}  // namespace quire

// Answers as messages of quire.v1. Pure; any thread.
#pragma once

#include <utility>

#include "quire/v1/inference.pb.h"
#include "server/request/answer.h"

namespace quire {

// Gives tokens their text: their bytes, with U+FFFD for bytes that are no character.
v1::GenerateResponse ToMessage(AnswerPart part);

// Merges the parts of one answer into the message of GenerateOnce. One thread at a time.
class AnswerCollector {
 public:
  void Add(AnswerPart part);
  v1::GenerateOnceResponse Take() { return std::move(answer_); }

 private:
  v1::Choice& ChoiceAt(int32_t index);

  v1::GenerateOnceResponse answer_;
};

}  // namespace quire

#include "server/request/output/response_collector.h"

#include <utility>

namespace quire {

v1::Choice& ResponseCollector::ChoiceAt(int32_t index) {
  while (answer_.choices_size() <= index) {
    const int32_t next = answer_.choices_size();
    answer_.add_choices()->set_index(next);
  }
  return *answer_.mutable_choices(index);
}

void ResponseCollector::Add(v1::GenerateResponse response) {
  switch (response.event_case()) {
    case v1::GenerateResponse::kStarted: {
      v1::Started& started = *response.mutable_started();
      answer_.set_request_id(std::move(*started.mutable_request_id()));
      if (answer_.prompt_logprobs().empty()) {  // the same for every continuation
        answer_.mutable_prompt_logprobs()->Swap(started.mutable_prompt_logprobs());
      }
      answer_.mutable_prompt_token_ids()->MergeFrom(started.prompt_token_ids());
      break;
    }
    case v1::GenerateResponse::kDelta: {
      v1::Delta& delta = *response.mutable_delta();
      v1::Choice& choice = ChoiceAt(delta.index());
      choice.mutable_text()->append(delta.text());
      choice.mutable_token_ids()->MergeFrom(delta.token_ids());
      choice.mutable_logprobs()->MergeFrom(delta.logprobs());
      break;
    }
    case v1::GenerateResponse::kFinished: {
      const int32_t index = response.finished().index();
      *ChoiceAt(index).mutable_finished() = std::move(*response.mutable_finished());
      break;
    }
    case v1::GenerateResponse::EVENT_NOT_SET:
      break;
  }
}

}  // namespace quire

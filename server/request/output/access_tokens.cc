#include "server/request/output/access_tokens.h"

namespace quire {

const char* FinishReasonName(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP:
      return "stop";
    case v1::FINISH_REASON_LENGTH:
      return "length";
    default:
      return "abort";
  }
}

void NoteResponse(const v1::GenerateResponse& response, AccessEntry* entry) {
  if (response.has_started()) {
    const v1::Started& started = response.started();
    entry->request_id = started.request_id();
    entry->prompt_tokens = started.prompt_tokens();
    entry->cached_tokens = started.cached_tokens();
  } else if (response.has_finished()) {
    const v1::Finished& finished = response.finished();
    entry->generated_tokens =
        entry->generated_tokens.value_or(0) + finished.usage().completion_tokens();
    entry->finish_reason = FinishReasonName(finished.finish_reason());
    entry->queue_ms = finished.timings().queue_ms();
    entry->prefill_ms = finished.timings().prefill_ms();
    entry->decode_ms = finished.timings().decode_ms();
  }
}

}  // namespace quire

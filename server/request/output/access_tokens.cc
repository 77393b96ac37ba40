#include "server/request/output/access_tokens.h"

namespace quire {

void NotePart(const AnswerPart& part, AccessEntry* entry) {
  if (const auto* started = std::get_if<Started>(&part)) {
    entry->request_id = started->request_id;
    entry->prompt_tokens = started->prompt_tokens;
    entry->cached_tokens = started->cached_tokens;
  } else if (const auto* finished = std::get_if<Finished>(&part)) {
    entry->generated_tokens =
        entry->generated_tokens.value_or(0) + finished->usage.completion_tokens;
    entry->finish_reason = FinishReasonName(finished->reason);
    entry->queue_ms = finished->timings.queue_ms;
    entry->prefill_ms = finished->timings.prefill_ms;
    entry->decode_ms = finished->timings.decode_ms;
  }
}

}  // namespace quire

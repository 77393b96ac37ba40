#include "server/request/answer_size.h"

#include "absl/strings/str_cat.h"
#include "server/request/limits.h"

namespace quire {

absl::Status AnswerTooLarge() {
  return absl::InvalidArgumentError(
      absl::StrCat("the answer has more than ", kMaxAnswerBytes,
                   " bytes, the most that is sent in one piece; ask for a stream, for fewer "
                   "logprobs, or for less at a time"));
}

bool AnswerSize::Add(size_t num_bytes) {
  return num_bytes_.fetch_add(num_bytes) + num_bytes <= kMaxAnswerBytes;
}

}  // namespace quire

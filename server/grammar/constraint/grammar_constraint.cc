#include "server/grammar/constraint/grammar_constraint.h"

#include <algorithm>

#include "kernels/base/check.h"

namespace quire {

void GrammarConstraint::FillMask(absl::Span<uint32_t> mask) {
  // An error is reported by the next Accept; until then there must be something to draw.
  if (matcher_.is_at_end() && matcher_.num_tokens() > 0) {
    std::fill(mask.begin(), mask.end(), ~uint32_t{0});
    return;
  }
  matcher_.FillMask(mask);
  if (!matcher_.status().ok()) std::fill(mask.begin(), mask.end(), ~uint32_t{0});
}

absl::Status GrammarConstraint::Accept(TokenId token) {
  if (matcher_.Accept(token)) return absl::OkStatus();
  if (absl::Status status = matcher_.status(); !status.ok()) return status;
  return absl::InternalError("a token came that the constraint does not allow");
}

}  // namespace quire

// TokenConstraint: limits the tokens that a sequence may generate, to those that keep to a schema
// or a grammar. The server makes it; the scheduler owns one for each sequence and tells it of every
// token that has become true; the engine asks it for masks while the forward pass runs. One call at
// a time: FillMask may come from another thread than the others, and while that of another sequence
// runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/base/types.h"

namespace quire {

class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  // Sets bit t % 32 of word t / 32 of `mask` ([MaskWords(vocab_size)]) for the tokens that may come
  // next, and clears the others. Sets all of them where nothing is limited, and after the end or an
  // error: a step may already be on its way then, and nobody wants its token.
  virtual void FillMask(absl::Span<uint32_t> mask) = 0;

  // One token further. An error ends the sequence: the token may not come, or the constraint has
  // used up what it may use.
  virtual absl::Status Accept(TokenId token) = 0;

  // Nothing may follow: the sequence ends as if its end token had come.
  virtual bool is_at_end() const = 0;

  // How many of the tokens, drafts for instance, may come one after another. Changes nothing.
  virtual size_t CountAllowed(absl::Span<const TokenId> tokens) = 0;

  // As if the last `num_tokens` tokens had not been accepted.
  virtual void GoBack(size_t num_tokens) = 0;
};

// What a request has: a constraint for each of its continuations, which is not at its end. Any
// thread.
class TokenConstraintSource {
 public:
  virtual ~TokenConstraintSource() = default;
  virtual std::unique_ptr<TokenConstraint> New() const = 0;
};

}  // namespace quire

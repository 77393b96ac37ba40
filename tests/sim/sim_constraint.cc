#include "tests/sim/sim_constraint.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/sampling_row.h"
#include "tests/sim/oracle.h"

namespace quire::sim {
namespace {

class SimConstraint : public TokenConstraint {
 public:
  SimConstraint(const Automaton& automaton, std::shared_ptr<ConstraintLog> log)
      : automaton_(automaton), log_(std::move(log)) {}
  ~SimConstraint() override { log_->is_alive = false; }

  void FillMask(absl::Span<uint32_t> mask) override {
    if (mask.size() != MaskWords(kVocabSize)) return Misuse("a mask of another length");
    if (log_->has_refused || automaton_.is_at_end()) {
      std::fill(mask.begin(), mask.end(), ~uint32_t{0});
      return;
    }
    const std::vector<uint32_t> words = automaton_.Mask();
    std::copy(words.begin(), words.end(), mask.begin());
  }

  absl::Status Accept(TokenId token) override {
    if (log_->has_refused) Misuse("a token after a refusal");
    if (automaton_.is_at_end()) Misuse("a token after the end");
    if (automaton_.Refuses(token)) {
      log_->has_refused = true;
      return absl::InvalidArgumentError(absl::StrCat("token ", token, " is refused"));
    }
    automaton_.Take(token);
    log_->accepted.push_back(token);
    return absl::OkStatus();
  }

  bool is_at_end() const override { return automaton_.is_at_end(); }

  size_t CountAllowed(absl::Span<const TokenId>) override {
    Misuse("drafts that nobody makes");
    return 0;
  }
  void GoBack(size_t) override { Misuse("tokens that nobody takes back"); }

 private:
  void Misuse(const char* what) {
    if (log_->misuse.empty()) log_->misuse = what;
  }

  Automaton automaton_;
  const std::shared_ptr<ConstraintLog> log_;
};

}  // namespace

// A third of the tokens, and one.
bool Automaton::Allows(TokenId token) const {
  return NextPrint(state_, token) % 3 == 0 || state_ % kVocabSize == static_cast<uint64_t>(token);
}

std::vector<uint32_t> Automaton::Mask() const {
  std::vector<uint32_t> mask(MaskWords(kVocabSize));
  for (TokenId token = 0; token < kVocabSize; ++token) {
    if (Allows(token)) mask[token / 32] |= uint32_t{1} << (token % 32);
  }
  return mask;
}

bool Automaton::Refuses(TokenId token) const {
  return !Allows(token) || NextPrint(state_, token) % 101 == 7;
}

void Automaton::Take(TokenId token) {
  state_ = NextPrint(state_, token);
  is_at_end_ = state_ % 41 == 5;
}

std::unique_ptr<TokenConstraint> SimConstraints::New() const {
  logs_.push_back(std::make_shared<ConstraintLog>());
  return std::make_unique<SimConstraint>(NewAutomaton(), logs_.back());
}

}  // namespace quire::sim

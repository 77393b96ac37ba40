// FakeConstraints: for each continuation of a request a TokenConstraint whose rule the test
// chooses, and what it was told. The constraints may be asked and looked at from any thread.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scheduler/token_constraint.h"

namespace quire {

class FakeConstraints : public TokenConstraintSource {
 public:
  using Tokens = std::vector<TokenId>;
  // The tokens that may follow `accepted` in continuation `index`; none: it is at its end.
  using Rule = std::function<Tokens(size_t index, const Tokens& accepted)>;

  explicit FakeConstraints(Rule rule) : state_(std::make_shared<State>(std::move(rule))) {}

  // One token may come at each position, and nothing after the last.
  static std::shared_ptr<FakeConstraints> Script(Tokens tokens) {
    return std::make_shared<FakeConstraints>(
        [tokens = std::move(tokens)](size_t, const Tokens& accepted) {
          return accepted.size() < tokens.size() ? Tokens{tokens[accepted.size()]} : Tokens{};
        });
  }

  // One of these may come at every position, and it never ends.
  static std::shared_ptr<FakeConstraints> AnyOf(const Tokens& tokens) {
    return std::make_shared<FakeConstraints>([tokens](size_t, const Tokens&) { return tokens; });
  }

  std::unique_ptr<TokenConstraint> New() const override {
    std::lock_guard lock(state_->mutex);
    state_->told.emplace_back().is_alive = true;
    return std::make_unique<Constraint>(state_, state_->told.size() - 1);
  }

  // Before the first request: continuation `index` does not accept its token at `position`,
  // whichever it is.
  void FailAt(size_t index, size_t position, absl::Status error) {
    state_->failing_index = index;
    state_->failing_position = position;
    state_->failure = std::move(error);
  }

  // Before the first request: every FillMask, or Accept, begins with this.
  void BeforeFill(std::function<void()> call) { state_->before_fill = std::move(call); }
  void BeforeAccept(std::function<void()> call) { state_->before_accept = std::move(call); }

  // The tokens that continuation `index` has accepted.
  Tokens accepted(size_t index) const {
    std::lock_guard lock(state_->mutex);
    return state_->told.at(index).accepted;
  }
  size_t num_made() const {
    std::lock_guard lock(state_->mutex);
    return state_->told.size();
  }
  size_t num_alive() const {
    std::lock_guard lock(state_->mutex);
    return std::count_if(state_->told.begin(), state_->told.end(),
                         [](const Told& told) { return told.is_alive; });
  }

 private:
  struct Told {
    Tokens accepted;
    bool is_alive = false;
    bool has_failed = false;
  };
  struct State {
    explicit State(Rule chosen) : rule(std::move(chosen)) {}

    // Nothing if it is at its end.
    Tokens Allowed(size_t index) const { return rule(index, told[index].accepted); }

    const Rule rule;
    size_t failing_index = 0, failing_position = 0;
    absl::Status failure;
    std::function<void()> before_fill, before_accept;
    mutable std::mutex mutex;
    std::vector<Told> told;  // in the order of New, which is that of the continuations
  };

  class Constraint : public TokenConstraint {
   public:
    Constraint(std::shared_ptr<State> state, size_t index)
        : state_(std::move(state)), index_(index) {}
    ~Constraint() override {
      std::lock_guard lock(state_->mutex);
      state_->told[index_].is_alive = false;
    }

    void FillMask(absl::Span<uint32_t> mask) override {
      if (state_->before_fill) state_->before_fill();
      std::lock_guard lock(state_->mutex);
      const Tokens allowed = state_->Allowed(index_);
      const bool is_over = allowed.empty() || state_->told[index_].has_failed;
      std::fill(mask.begin(), mask.end(), is_over ? ~uint32_t{0} : 0);
      for (const TokenId token : allowed) {
        mask[static_cast<size_t>(token) / 32] |= uint32_t{1} << (token % 32);
      }
    }

    absl::Status Accept(TokenId token) override {
      if (state_->before_accept) state_->before_accept();
      std::lock_guard lock(state_->mutex);
      Told& told = state_->told[index_];
      const Tokens allowed = state_->Allowed(index_);
      EXPECT_FALSE(told.has_failed) << "a token after an error";
      EXPECT_FALSE(allowed.empty()) << "a token after the end";
      absl::Status status;
      if (index_ == state_->failing_index && told.accepted.size() == state_->failing_position) {
        status = state_->failure;
      }
      if (std::find(allowed.begin(), allowed.end(), token) == allowed.end()) {
        status = absl::InvalidArgumentError(absl::StrCat("token ", token, " may not come"));
      }
      told.has_failed = !status.ok();
      if (status.ok()) told.accepted.push_back(token);
      return status;
    }

    bool is_at_end() const override {
      std::lock_guard lock(state_->mutex);
      return state_->Allowed(index_).empty();
    }

    size_t CountAllowed(absl::Span<const TokenId>) override {
      ADD_FAILURE() << "nothing drafts tokens";
      return 0;
    }
    void GoBack(size_t) override { ADD_FAILURE() << "nothing takes tokens back"; }

   private:
    const std::shared_ptr<State> state_;
    const size_t index_;
  };

  const std::shared_ptr<State> state_;
};

}  // namespace quire

// Every constraint of a call fills its own mask, once, whatever the number of threads and rows.
#include "engine/runner/token_masks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>

namespace quire {
namespace {

// Its mask says who made it and how often it was asked. Only FillMask is ever called.
class NumberedConstraint : public TokenConstraint {
 public:
  explicit NumberedConstraint(uint32_t number) : number_(number) {}

  void FillMask(absl::Span<uint32_t> mask) override {
    EXPECT_FALSE(is_busy_.exchange(true)) << "two threads ask " << number_;
    ++num_fills_;
    for (size_t i = 0; i < mask.size(); ++i) mask[i] = Word(i);
    if (number_ % 3 == 0) std::this_thread::yield();  // so that the others get their turns
    is_busy_ = false;
  }
  uint32_t Word(size_t i) const { return number_ * 1'000'003 + num_fills_ * 257 + i; }
  uint32_t num_fills() const { return num_fills_; }

  absl::Status Accept(TokenId) override { return absl::UnimplementedError(""); }
  bool is_at_end() const override { return false; }
  size_t CountAllowed(absl::Span<const TokenId>) override { return 0; }
  void GoBack(size_t) override {}

 private:
  const uint32_t number_;
  uint32_t num_fills_ = 0;  // not atomic: a sanitizer shall see who writes it
  std::atomic<bool> is_busy_{false};
};

class TokenMasksTest : public ::testing::TestWithParam<int> {};

TEST_P(TokenMasksTest, EveryRowHasTheMaskOfItsConstraint) {
  constexpr int kMostRows = 40, kNumRounds = 4000;
  constexpr int64_t kNumWords = 5;
  constexpr uint32_t kUntouched = 0xabcdef;
  std::vector<std::unique_ptr<NumberedConstraint>> all;
  for (int i = 0; i < kMostRows; ++i) all.push_back(std::make_unique<NumberedConstraint>(i));
  std::vector<uint32_t> num_asked(kMostRows);
  TokenMasks token_masks(GetParam());
  std::mt19937 random(GetParam() + 1);
  for (int round = 0; round < kNumRounds; ++round) {
    // Mostly few, so that threads that come late meet rows of the next call.
    const size_t num_rows = random() % (round % 4 == 0 ? kMostRows + 1 : 7);
    std::vector<int> order(kMostRows);
    for (int i = 0; i < kMostRows; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    std::vector<TokenConstraint*> constraints;
    for (size_t row = 0; row < num_rows; ++row) constraints.push_back(all[order[row]].get());
    std::vector<uint32_t> masks((num_rows + 1) * kNumWords, kUntouched);
    token_masks.Fill(constraints, masks.data(), kNumWords);
    for (size_t row = 0; row < num_rows; ++row) {
      const NumberedConstraint& constraint = *all[order[row]];
      ASSERT_EQ(constraint.num_fills(), ++num_asked[order[row]]);
      for (int64_t i = 0; i < kNumWords; ++i) {
        ASSERT_EQ(masks[row * kNumWords + i], constraint.Word(i)) << "row " << row;
      }
    }
    for (int64_t i = 0; i < kNumWords; ++i) {
      ASSERT_EQ(masks[num_rows * kNumWords + i], kUntouched) << "behind " << num_rows << " rows";
    }
  }
}

// Whether it was asked or not, and while its threads have hardly begun.
TEST_P(TokenMasksTest, ItEndsAtAnyTime) {
  NumberedConstraint constraints[8] = {
      NumberedConstraint(0), NumberedConstraint(1), NumberedConstraint(2), NumberedConstraint(3),
      NumberedConstraint(4), NumberedConstraint(5), NumberedConstraint(6), NumberedConstraint(7)};
  std::vector<TokenConstraint*> all;
  for (NumberedConstraint& constraint : constraints) all.push_back(&constraint);
  for (uint32_t i = 0; i < 50; ++i) {
    TokenMasks token_masks(GetParam());
    if (i % 2 == 0) continue;
    uint32_t masks[8] = {};
    token_masks.Fill(all, masks, /*num_words=*/1);
    for (int row = 0; row < 8; ++row) EXPECT_EQ(masks[row], constraints[row].Word(0));
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, TokenMasksTest, ::testing::Values(0, 1, 3));

// Each of them waits until all are being filled: only as many threads as that can do it.
class MeetingConstraint : public NumberedConstraint {
 public:
  MeetingConstraint(std::atomic<int>* num_waiting, int num_expected)
      : NumberedConstraint(0), num_waiting_(num_waiting), num_expected_(num_expected) {}
  void FillMask(absl::Span<uint32_t> mask) override {
    ++*num_waiting_;
    num_waiting_->notify_all();
    for (int seen = *num_waiting_; seen < num_expected_; seen = *num_waiting_) {
      num_waiting_->wait(seen);
    }
    NumberedConstraint::FillMask(mask);
  }

 private:
  std::atomic<int>* const num_waiting_;
  const int num_expected_;
};

TEST(TokenMasksThreadsTest, RowsAreFilledAtTheSameTime) {
  constexpr int kNumRows = 4;
  TokenMasks token_masks(kNumRows - 1);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> num_waiting = 0;
    std::vector<std::unique_ptr<MeetingConstraint>> constraints;
    std::vector<TokenConstraint*> all;
    for (int i = 0; i < kNumRows; ++i) {
      constraints.push_back(std::make_unique<MeetingConstraint>(&num_waiting, kNumRows));
      all.push_back(constraints.back().get());
    }
    uint32_t masks[kNumRows] = {};
    token_masks.Fill(all, masks, /*num_words=*/1);
    for (const auto& constraint : constraints) EXPECT_EQ(constraint->num_fills(), 1u);
  }
}

TEST(TokenMasksThreadsTest, ThereAreNoneWhereEveryCoreComputes) {
  EXPECT_EQ(TokenMasks::UsefulThreads(1'000'000), 0);
  EXPECT_GE(TokenMasks::UsefulThreads(0), TokenMasks::UsefulThreads(4));
}

}  // namespace
}  // namespace quire

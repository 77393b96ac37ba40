#include "scheduler/stop.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

StopConditions Stop() {
  StopConditions stop;
  stop.eos_token_ids = {2, 3};
  stop.stop_token_ids = {9};
  return stop;
}

TEST(StopTest, AnOrdinaryTokenGoesOn) {
  const StopDecision decision = CheckStop(Stop(), 5, 1, 10);
  EXPECT_EQ(decision.reason, FinishReason::kNone);
  EXPECT_EQ(decision.matched_token, -1);
}

TEST(StopTest, EndOfSequenceAndClientTokensStopAndAreNamed) {
  for (TokenId token : {2, 3, 9}) {
    const StopDecision decision = CheckStop(Stop(), token, 1, 10);
    EXPECT_EQ(decision.reason, FinishReason::kStop);
    EXPECT_EQ(decision.matched_token, token);
  }
}

TEST(StopTest, TheLastTokenThatFitsEndsByLength) {
  EXPECT_EQ(CheckStop(Stop(), 5, 9, 10).reason, FinishReason::kNone);
  EXPECT_EQ(CheckStop(Stop(), 5, 10, 10).reason, FinishReason::kLength);
}

TEST(StopTest, AStopTokenInTheLastPlaceCountsAsStop) {
  EXPECT_EQ(CheckStop(Stop(), 2, 10, 10).reason, FinishReason::kStop);
}

TEST(StopTest, TheFirstMinTokensNeverStop) {
  StopConditions stop = Stop();
  stop.min_tokens = 3;
  EXPECT_EQ(CheckStop(stop, 2, 1, 10).reason, FinishReason::kNone);
  EXPECT_EQ(CheckStop(stop, 9, 3, 10).reason, FinishReason::kNone);
  EXPECT_EQ(CheckStop(stop, 2, 4, 10).reason, FinishReason::kStop);
}

TEST(StopTest, MinTokensDoNotLiftTheLengthLimit) {
  StopConditions stop = Stop();
  stop.min_tokens = 20;
  EXPECT_EQ(CheckStop(stop, 2, 10, 10).reason, FinishReason::kLength);
}

}  // namespace
}  // namespace quire

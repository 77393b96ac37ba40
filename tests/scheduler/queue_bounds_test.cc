// The share of the waiting queue that a flow may take.
#include "scheduler/queue_bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using testing::HasSubstr;

Request RequestOf(uint64_t flow, int32_t n, int64_t num_prompt_tokens) {
  Request request;
  request.flow.id = flow;
  request.sampling.n = n;
  request.prompt.resize(num_prompt_tokens);
  return request;
}

absl::Status Enter(QueueBounds* bounds, const Request& request) {
  const absl::Status status = bounds->Check(request);
  if (status.ok()) bounds->Enter(request.flow, LoadOf(request));
  return status;
}

int64_t Fill(QueueBounds* bounds, const Request& request) {
  int64_t num_entered = 0;
  while (Enter(bounds, request).ok()) ++num_entered;
  return num_entered;
}

TEST(QueueBoundsTest, NobodyInParticularMayFillIt) {
  QueueBounds bounds(100, 1000);
  EXPECT_EQ(Fill(&bounds, RequestOf(0, 1, 5)), 100);
  EXPECT_THAT(std::string(bounds.Check(RequestOf(0, 1, 5)).message()),
              HasSubstr("the waiting queue is full: 100 of 100 requests and 500 of 1000 prompt"));
}

TEST(QueueBoundsTest, AFlowAloneTakesThreeQuarters) {
  QueueBounds places(100, 1000);
  EXPECT_EQ(Fill(&places, RequestOf(7, 1, 5)), 75);
  QueueBounds tokens(100, 1000);
  EXPECT_EQ(Fill(&tokens, RequestOf(7, 1, 50)), 15);
  const absl::Status status = tokens.Check(RequestOf(7, 1, 50));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("your share of the waiting queue is full: 15 of your requests with 750"));
}

TEST(QueueBoundsTest, EachContinuationTakesAPlace) {
  QueueBounds bounds(100, 1000);
  EXPECT_TRUE(Enter(&bounds, RequestOf(7, 70, 5)).ok());
  EXPECT_EQ(bounds.HeldBy(7).num_places, 70);
  EXPECT_EQ(bounds.HeldBy(7).num_tokens, 350);
  EXPECT_EQ(bounds.Check(RequestOf(7, 6, 5)).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Enter(&bounds, RequestOf(7, 5, 5)).ok());
}

TEST(QueueBoundsTest, WhatCanNeverFitIsSaidSo) {
  QueueBounds bounds(100, 1000);
  EXPECT_EQ(bounds.Check(RequestOf(7, 76, 5)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(bounds.Check(RequestOf(0, 101, 5)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(bounds.Check(RequestOf(7, 0, 5)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(bounds.Check(RequestOf(0, 76, 5)).ok());
  EXPECT_TRUE(bounds.Check(RequestOf(7, 1, 1000)).ok());
}

TEST(QueueBoundsTest, AListIsTakenAsAWhole) {
  QueueBounds bounds(100, 1000);
  const std::vector<Request> thirty(10, RequestOf(7, 3, 5));
  EXPECT_TRUE(bounds.Check(thirty).ok());
  EXPECT_TRUE(Enter(&bounds, RequestOf(7, 60, 5)).ok());
  EXPECT_TRUE(bounds.Check(thirty[0]).ok());
  EXPECT_EQ(bounds.Check(thirty).code(), absl::StatusCode::kResourceExhausted);
  const absl::Status never = bounds.Check(std::vector<Request>(40, RequestOf(7, 2, 5)));
  EXPECT_EQ(never.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(never.message()),
              HasSubstr("the 40 prompts ask for 80 continuations of together 400 prompt tokens"));
}

TEST(QueueBoundsTest, RoomIsWhatTheShortestPromptsFind) {
  const auto full = absl::StatusCode::kResourceExhausted;
  QueueBounds bounds(8, 1000);
  EXPECT_TRUE(bounds.CheckRoom({7, 1}, 1).ok());
  EXPECT_EQ(Fill(&bounds, RequestOf(7, 1, 1)), 6);
  EXPECT_EQ(bounds.CheckRoom({7, 1}, 1).code(), full);  // its share
  EXPECT_TRUE(bounds.CheckRoom({8, 1}, 1).ok());
  EXPECT_TRUE(bounds.CheckRoom({0, 1}, 1).ok());
  EXPECT_EQ(Fill(&bounds, RequestOf(0, 1, 1)), 2);
  EXPECT_EQ(bounds.CheckRoom({8, 1}, 1).code(), full);
  EXPECT_EQ(bounds.CheckRoom({0, 1}, 1).code(), full);
  bounds.Leave({0, 1}, {1, 1});
  EXPECT_TRUE(bounds.CheckRoom({8, 1}, 1).ok());

  EXPECT_EQ(bounds.CheckRoom({8, 1}, 2).code(), full);
  EXPECT_EQ(bounds.CheckRoom({0, 1}, 9).code(), absl::StatusCode::kInvalidArgument);

  QueueBounds tokens(1000, 8);
  EXPECT_TRUE(tokens.CheckRoom({8, 1}, 6).ok());
  EXPECT_EQ(Fill(&tokens, RequestOf(0, 1, 4)), 2);
  EXPECT_EQ(tokens.CheckRoom({8, 1}, 1).code(), full);
}

TEST(QueueBoundsTest, GreedyFlowsLeaveRoomForTheNext) {
  QueueBounds bounds(1300, 1'000'000);
  for (int round = 0; round < 1300; ++round) {
    for (uint64_t flow = 1; flow <= 4; ++flow) (void)Enter(&bounds, RequestOf(flow, 1, 5));
  }
  for (uint64_t flow = 1; flow <= 4; ++flow) EXPECT_NEAR(bounds.HeldBy(flow).num_places, 300, 3);
  EXPECT_GE(Fill(&bounds, RequestOf(5, 1, 5)), 60);
}

TEST(QueueBoundsTest, WhoHoldsNothingMayTakeTheLastPlace) {
  QueueBounds bounds(4, 1000);
  EXPECT_EQ(Fill(&bounds, RequestOf(7, 1, 5)), 3);
  EXPECT_TRUE(Enter(&bounds, RequestOf(8, 1, 5)).ok());
  EXPECT_EQ(bounds.Check(RequestOf(9, 1, 5)).code(), absl::StatusCode::kResourceExhausted);
  bounds.Leave({.id = 7}, {1, 5});
  EXPECT_EQ(bounds.Check(RequestOf(8, 1, 5)).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Enter(&bounds, RequestOf(9, 1, 5)).ok());
}

TEST(QueueBoundsTest, WhoHasLeftIsForgotten) {
  QueueBounds bounds(100, 1000);
  EXPECT_TRUE(Enter(&bounds, RequestOf(7, 2, 5)).ok());
  bounds.Leave({.id = 7}, {1, 5});
  bounds.Leave({.id = 7}, {1, 5});
  EXPECT_EQ(bounds.all().num_places, 0);
  EXPECT_EQ(bounds.all().num_tokens, 0);
  EXPECT_DEATH(bounds.Leave({.id = 7}, {1, 5}), "CHECK failed");
}

}  // namespace
}  // namespace quire

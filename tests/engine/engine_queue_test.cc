// Which requests an engine takes, and which it refuses: bounds, the queue and its flows.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <thread>

#include "tests/engine/engine_fixture.h"

namespace quire {
namespace {

using testing::Answer;
using testing::Generate;
using testing::GreedyRequest;
using testing::RandomPrompt;
using testing::ReadAll;
using testing::Waiter;

TEST_P(EngineTest, RefusalsAreImmediateAndNameTheLimit) {
  EngineConfig config = Config();
  config.max_num_queued_reqs = 2;
  config.max_num_seqs = 1;
  Waiter waiter;
  auto engine = Open(config);
  auto refuse = [&](const Request& request) { return engine->Submit(request, &waiter).status(); };
  EXPECT_EQ(refuse(GreedyRequest({}, 5)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refuse(GreedyRequest({64}, 5)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refuse(GreedyRequest({-1}, 5)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refuse(GreedyRequest(RandomPrompt(512, 1), 5)).code(),
            absl::StatusCode::kInvalidArgument);
  Request many = GreedyRequest({1, 2}, 5);
  many.sampling.n = 1000000;
  EXPECT_EQ(refuse(many).code(), absl::StatusCode::kInvalidArgument);
  Request nan = GreedyRequest({1, 2}, 5);
  nan.sampling.temperature = NAN;
  EXPECT_EQ(refuse(nan).code(), absl::StatusCode::kInvalidArgument);

  // One running, two waiting, the next is one too many.
  std::vector<std::shared_ptr<OutputStream>> accepted;
  absl::Status status;
  while (status.ok()) {
    auto stream = engine->Submit(GreedyRequest(RandomPrompt(20, 1), 400), &waiter);
    status = stream.status();
    if (stream.ok()) accepted.push_back(*stream);
    ASSERT_LE(accepted.size(), 40u);
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  for (auto& stream : accepted) EXPECT_EQ(ReadAll(*stream, waiter).at(0).tokens.size(), 400u);
}

// Every continuation takes a place of its flow's share, and the next flow finds one.
TEST_P(EngineTest, NoFlowFillsTheQueue) {
  EngineConfig config = Config();
  config.max_num_queued_reqs = 8;
  config.max_num_seqs = 1;
  Waiter waiter;
  auto engine = Open(config);
  Request many = GreedyRequest(RandomPrompt(20, 1), 400);
  many.flow.id = 1;
  many.sampling.n = 7;
  EXPECT_EQ(engine->Submit(many, &waiter).status().code(), absl::StatusCode::kInvalidArgument);
  many.sampling.n = 2;
  absl::Status status;
  for (int i = 0; i < 40 && status.ok(); ++i) status = engine->Submit(many, &waiter).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("your share of the waiting queue is full"), std::string::npos)
      << status;

  Request one = GreedyRequest(RandomPrompt(20, 2), 5);
  one.flow.id = 2;
  EXPECT_TRUE(engine->CheckRoom(one.flow).ok());
  auto stream = engine->Submit(one, &waiter);
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_EQ(ReadAll(**stream, waiter).at(0).tokens.size(), 5u);
  one.flow.weight = 0;
  EXPECT_EQ(engine->Submit(one, &waiter).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(EngineTest, AListOfRequestsIsTakenAsAWhole) {
  EngineConfig config = Config();
  config.max_num_queued_reqs = 8;
  Waiter waiter;
  auto engine = Open(config);
  std::vector<Request> list;
  list.reserve(6);
  for (uint32_t i = 0; i < 6; ++i) list.push_back(GreedyRequest(RandomPrompt(20, i), 5));
  auto streams = engine->Submit(list, &waiter);
  ASSERT_TRUE(streams.ok()) << streams.status();
  ASSERT_EQ(streams->size(), list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(ReadAll(*(*streams)[i], waiter).at(0).tokens, Generate(*engine, list[i]).tokens);
  }
  // One that is wrong, or one too many, and none is taken.
  const auto num_steps = IdleStatus(*engine).num_steps;
  list[5].stop.max_tokens = 0;
  EXPECT_EQ(engine->Submit(list, &waiter).status().code(), absl::StatusCode::kInvalidArgument);
  list[5] = list[4];
  for (int i = 0; i < 3; ++i) list.push_back(list[0]);
  EXPECT_EQ(engine->Submit(list, &waiter).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(IdleStatus(*engine).num_steps, num_steps);
}

// Cancelled or finished, a continuation takes memory as long as somebody holds its stream.
TEST_P(EngineTest, WhatIsNotReadCounts) {
  EngineConfig config = Config();
  config.max_num_queued_reqs = 40;
  config.max_num_seqs = 4;
  Waiter waiter;
  auto engine = Open(config);
  Request request = GreedyRequest(RandomPrompt(20, 1), 3);
  request.sampling.n = 8;
  std::vector<std::shared_ptr<OutputStream>> unread;
  absl::Status status;
  while (status.ok()) {
    auto stream = engine->Submit(request, &waiter);
    status = stream.status();
    if (!stream.ok()) break;
    engine->Cancel((*stream)->request_id());
    unread.push_back(*std::move(stream));
    ASSERT_TRUE(engine->WaitUntilIdle(absl::Now() + absl::Seconds(20)));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(unread.size(), 6u);  // 48 continuations: 40 that may wait, and twice what may run
  EXPECT_EQ(engine->CheckRoom(request.flow).code(), absl::StatusCode::kResourceExhausted);
  unread.pop_back();
  // Its place is free when the engine has let go of it, too.
  while (!engine->CheckRoom(request.flow).ok()) std::this_thread::yield();
  EXPECT_TRUE(engine->Submit(request, &waiter).ok());
}

// Preempted requests wait beside new ones. New requests are refused for them when they come, and
// not after they were accepted.
TEST_P(EngineTest, WhatWasAcceptedIsNotRefusedAfterPreemptions) {
  EngineConfig config = Config();
  config.max_num_queued_reqs = 6;
  config.kv_cache_memory_bytes = int64_t{40} * 8192;  // 40 blocks: forces preemptions
  Waiter waiter;
  auto engine = Open(config);
  std::deque<std::shared_ptr<OutputStream>> accepted;
  uint32_t num_accepted = 0;
  int num_refused = 0;
  const auto read_oldest = [&] {
    const Answer answer = ReadAll(*accepted.front(), waiter).at(0);
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.tokens.size(), 100u);
    accepted.pop_front();
  };
  while (num_accepted < 60) {
    auto stream = engine->Submit(GreedyRequest(RandomPrompt(20, num_accepted), 100), &waiter);
    if (stream.ok()) {
      accepted.push_back(*std::move(stream));
      ++num_accepted;
    } else {
      ASSERT_EQ(stream.status().code(), absl::StatusCode::kResourceExhausted);
      ++num_refused;
      if (accepted.size() > 30) read_oldest();  // what is not read counts, too
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  while (!accepted.empty()) read_oldest();
  EXPECT_GT(num_refused, 0);
  EXPECT_GT(IdleStatus(*engine).scheduler.num_preemptions, 0);
}

}  // namespace
}  // namespace quire

// The life of a sequence's constraint: it accepts the tokens that have become true, each once and
// in order, and ends the sequence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scheduler/fake_constraint.h"
#include "tests/scheduler/harness.h"

namespace quire {
namespace {

using Tokens = FakeConstraints::Tokens;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The tokens that SchedulerHarness samples for request `id`, continuation `index`.
Tokens Samples(RequestId id, int64_t num_tokens, int32_t index = 0) {
  Tokens tokens;
  for (int64_t i = 0; i < num_tokens; ++i) {
    tokens.push_back(static_cast<TokenId>(500'000 + id * 1000 + index * 100 + i));
  }
  return tokens;
}

// Any sample may come, for ever.
std::shared_ptr<FakeConstraints> AllSamples(RequestId id) {
  return std::make_shared<FakeConstraints>(
      [id](size_t index, const Tokens&) { return Samples(id, 100, static_cast<int32_t>(index)); });
}

std::function<void(Request*)> With(std::shared_ptr<const TokenConstraintSource> constraint) {
  return
      [constraint = std::move(constraint)](Request* request) { request->constraint = constraint; };
}

// The tokens that events report for a continuation.
Tokens Reported(const std::vector<SequenceEvent>& events, const SequenceKey& key) {
  Tokens tokens;
  for (const SequenceEvent& event : events) {
    if (event.key == key && event.kind == SequenceEvent::Kind::kToken) {
      tokens.push_back(event.token);
    }
  }
  return tokens;
}

// The constraint that the last step has for a sequence; null also if it is not in the step.
TokenConstraint* InStep(const SchedulerHarness& h, const SequenceKey& key) {
  for (const ScheduledSequence& sequence : h.last_output.sequences) {
    if (sequence.key == key) return sequence.constraint;
  }
  return nullptr;
}

TEST(ConstraintTest, AcceptsEachTokenOnceWhenItBecomesTrue) {
  SchedulerHarness h;
  const auto constraint = AllSamples(1);
  h.Add(1, 4, 5, With(constraint));
  h.Schedule();
  h.Schedule();
  EXPECT_THAT(constraint->accepted(0), IsEmpty());
  h.Commit();
  EXPECT_EQ(constraint->accepted(0), Samples(1, 1));
  h.Schedule();
  EXPECT_EQ(constraint->accepted(0), Samples(1, 1));
  h.Commit();
  EXPECT_EQ(constraint->accepted(0), Samples(1, 2));
  h.Commit();
  h.RunToEnd();
  EXPECT_EQ(constraint->accepted(0), Samples(1, 5));
  EXPECT_EQ(Reported(h.scheduler.TakeEvents(), {1, 0}), Samples(1, 5));
}

TEST(ConstraintTest, IsInAStepThatSamplesAndInNoOther) {
  SchedulerHarness h;
  const auto constraint = AllSamples(1);
  h.Add(1, 40, 3, With(constraint));
  EXPECT_EQ(h.Step(), "1:[0,16)");
  EXPECT_EQ(InStep(h, {1, 0}), nullptr);
  h.Add(2, 1, 9);
  EXPECT_EQ(h.Step(), "2:[0,1)* 1:[16,31)");
  EXPECT_EQ(InStep(h, {1, 0}), nullptr);
  EXPECT_EQ(h.Step(), "2:[1,2)* 1:[31,40)*");
  TokenConstraint* const own = InStep(h, {1, 0});
  EXPECT_NE(own, nullptr);
  EXPECT_EQ(InStep(h, {2, 0}), nullptr);
  EXPECT_EQ(h.Step(), "1:[40,41)* 2:[2,3)*");
  EXPECT_EQ(InStep(h, {1, 0}), own);
  EXPECT_EQ(constraint->num_made(), 1u);
}

TEST(ConstraintTest, AtItsEndTheSequenceStopsWithThatToken) {
  SchedulerHarness h;
  const auto constraint = FakeConstraints::Script(Samples(1, 3));
  h.Add(1, 4, 9, With(constraint));
  h.Schedule();
  while (h.Schedule() != "") h.Commit();  // always one step ahead
  EXPECT_THAT(h.TakeEvents(), ElementsAre("started 1 cached 0", "token 1 501000", "token 1 501001",
                                          "token 1 501002", "finished 1 stop -1"));
  EXPECT_EQ(constraint->accepted(0), Samples(1, 3));
  h.Commit();  // the step ahead, which comes to nothing
  EXPECT_THAT(h.TakeEvents(), IsEmpty());
  EXPECT_FALSE(h.scheduler.HasUnfinished());
  EXPECT_EQ(h.scheduler.stats().blocks.num_held, 0);
}

// Nothing was cut off: the client may rely on that.
TEST(ConstraintTest, TheEndIsAStopAlsoAtMaxTokens) {
  for (const bool ends : {true, false}) {
    SchedulerHarness h;
    h.Add(1, 4, 3, With(FakeConstraints::Script(Samples(1, ends ? 3 : 4))));
    h.RunToEnd();
    EXPECT_EQ(h.TakeEvents().back(), ends ? "finished 1 stop -1" : "finished 1 length");
  }
}

TEST(ConstraintTest, TheEndIsAStopAlsoAtTheModelsLength) {
  SchedulerConfig config = SmallScheduler();
  config.max_model_len = 7;
  SchedulerHarness h(config);
  h.Add(1, 4, 100, With(FakeConstraints::Script(Samples(1, 3))));
  h.RunToEnd();
  EXPECT_EQ(h.TakeEvents().back(), "finished 1 stop -1");
}

TEST(ConstraintTest, AStopTokenIsAcceptedAndNamed) {
  for (const int64_t length : {3, 8}) {  // at the constraint's end, and before it
    SchedulerHarness h;
    const auto constraint = FakeConstraints::Script(Samples(1, length));
    h.Add(1, 4, 9, [&](Request* request) {
      request->constraint = constraint;
      request->stop.stop_token_ids = {501002};
    });
    h.RunToEnd();
    EXPECT_EQ(h.TakeEvents().back(), "finished 1 stop 501002");
    EXPECT_EQ(constraint->accepted(0), Samples(1, 3));
  }
}

TEST(ConstraintTest, MinTokensDoNotOutliveTheEnd) {
  SchedulerHarness h;
  h.Add(1, 4, 9, [](Request* request) {
    request->constraint = FakeConstraints::Script(Samples(1, 3));
    request->stop.min_tokens = 6;
    request->stop.stop_token_ids = {501001};
  });
  h.RunToEnd();
  EXPECT_THAT(h.TakeEvents(), ElementsAre("started 1 cached 0", "token 1 501000", "token 1 501001",
                                          "token 1 501002", "finished 1 stop -1"));
}

TEST(ConstraintTest, ATokenThatIsNotAcceptedEndsTheSequenceAndIsNotReported) {
  SchedulerHarness h;
  const auto constraint = AllSamples(1);
  constraint->FailAt(0, 2, absl::ResourceExhaustedError("the grammar has grown too large"));
  h.Add(1, 4, 9, With(constraint));
  h.Add(2, 4, 4);
  h.Schedule();
  while (h.Schedule() != "") h.Commit();
  h.Commit();
  const std::vector<SequenceEvent> events = h.scheduler.TakeEvents();
  EXPECT_EQ(Reported(events, {1, 0}), Samples(1, 2));
  EXPECT_EQ(Reported(events, {2, 0}), Samples(2, 4));
  int num_ends = 0;
  for (const SequenceEvent& event : events) {
    if (event.key.request != 1 || event.kind != SequenceEvent::Kind::kFinished) continue;
    ++num_ends;
    EXPECT_EQ(event.reason, FinishReason::kError);
    EXPECT_EQ(event.error, absl::ResourceExhaustedError("the grammar has grown too large"));
    EXPECT_FALSE(event.is_broken);
    EXPECT_EQ(event.matched_token, -1);
  }
  EXPECT_EQ(num_ends, 1);
  EXPECT_EQ(constraint->accepted(0), Samples(1, 2));
  EXPECT_FALSE(h.scheduler.HasUnfinished());
  EXPECT_EQ(h.scheduler.stats().blocks.num_held, 0);
}

// .. even if it would have been the last one anyway.
TEST(ConstraintTest, AnErrorComesBeforeStopTokensAndLimits) {
  SchedulerHarness h;
  h.Add(1, 4, 2, With(FakeConstraints::Script({501000, 7})));
  h.Add(2, 4, 9, [](Request* request) {
    request->constraint = FakeConstraints::AnyOf({7});
    request->stop.eos_token_ids = {502000};
  });
  h.RunToEnd();
  EXPECT_THAT(h.TakeEvents(),
              ElementsAre("started 1 cached 0", "started 2 cached 0", "token 1 501000",
                          "finished 2 error", "finished 1 error"));
}

TEST(ConstraintTest, BrokenLogitsAreNotAccepted) {
  SchedulerHarness h;
  const auto constraint = AllSamples(1);
  h.Add(1, 4, 9, With(constraint));
  h.Step();
  h.TakeEvents();
  h.Schedule();
  h.BreakLogits();
  h.Commit();
  const std::vector<SequenceEvent> events = h.scheduler.TakeEvents();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].error.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(events[0].is_broken);
  EXPECT_EQ(constraint->accepted(0), Samples(1, 1));
}

TEST(ConstraintTest, ACancelledStepIsNotAccepted) {
  SchedulerHarness h;
  const auto constraint = AllSamples(1);
  h.Add(1, 4, 9, With(constraint));
  h.Step();
  h.Schedule();
  h.Schedule();
  h.scheduler.Cancel(1, FinishReason::kAbort);
  EXPECT_TRUE(h.scheduler.TakeEvents().back().error.ok());
  h.Commit();
  h.Commit();
  EXPECT_EQ(constraint->accepted(0), Samples(1, 1));
}

// The token that the step in flight draws is drawn again later, and accepted then.
TEST(ConstraintTest, APreemptedStepIsNotAccepted) {
  SchedulerConfig config = SmallScheduler();
  config.max_num_seqs = 1;
  SchedulerHarness h(config);
  const auto constraint = AllSamples(1);
  h.Add(1, 4, 5, With(constraint));
  h.Step();
  h.Schedule();
  h.Add(2, 4, 1, [](Request* request) { request->priority = -1; });
  EXPECT_EQ(h.Schedule(), "");
  h.Commit();
  EXPECT_EQ(constraint->accepted(0), Samples(1, 1));
  EXPECT_EQ(h.Step(), "2:[0,4)*");
  EXPECT_EQ(h.Step(), "1:[4,5)*");
  EXPECT_NE(InStep(h, {1, 0}), nullptr);
  EXPECT_EQ(constraint->accepted(0), Samples(1, 2));
  h.RunToEnd();
  EXPECT_EQ(constraint->accepted(0), Samples(1, 5));
}

// Six blocks of four for two that need four each in the end.
TEST(ConstraintTest, APreemptedSequenceGoesOnWhereItsConstraintWas) {
  for (const bool lookahead : {false, true}) {
    SchedulerHarness h(SmallScheduler(), SmallBlocks(6));
    const std::shared_ptr<FakeConstraints> constraints[] = {
        FakeConstraints::Script(Samples(1, 12)), FakeConstraints::Script(Samples(2, 12))};
    h.Add(1, 4, 12, With(constraints[0]));
    h.Add(2, 4, 12, With(constraints[1]));
    while (h.scheduler.HasUnfinished()) {
      const bool scheduled = !h.Schedule().empty();
      while (h.in_flight.size() > (lookahead && scheduled ? 1u : 0u)) h.Commit();
    }
    EXPECT_GT(h.scheduler.stats().num_preemptions, 0);
    const std::vector<SequenceEvent> events = h.scheduler.TakeEvents();
    for (const RequestId id : {1, 2}) {
      EXPECT_EQ(constraints[id - 1]->num_made(), 1u);
      EXPECT_EQ(constraints[id - 1]->accepted(0), Samples(id, 12));
      EXPECT_EQ(Reported(events, {id, 0}), Samples(id, 12));
    }
    EXPECT_EQ(events.back().reason, FinishReason::kStop);
  }
}

TEST(ConstraintTest, EachContinuationHasItsOwn) {
  SchedulerHarness h;
  const auto constraint = std::make_shared<FakeConstraints>([](size_t index, const Tokens& past) {
    const Tokens all = Samples(1, 9, static_cast<int32_t>(index));
    const size_t length = 2 + 2 * index;
    return past.size() < length ? Tokens{all[past.size()]} : Tokens{};
  });
  constraint->FailAt(1, 1, absl::InternalError("lost"));
  h.Add(1, 4, 9, [&](Request* request) {
    request->constraint = constraint;
    request->sampling.n = 3;
  });
  EXPECT_EQ(constraint->num_made(), 3u);
  h.Step();
  h.Step();
  EXPECT_EQ(h.Step(), "1/1:[4,5)* 1/2:[4,5)*");
  EXPECT_NE(InStep(h, {1, 1}), InStep(h, {1, 2}));
  h.RunToEnd();
  EXPECT_EQ(constraint->accepted(0), Samples(1, 2, 0));
  EXPECT_EQ(constraint->accepted(1), Samples(1, 1, 1));
  EXPECT_EQ(constraint->accepted(2), Samples(1, 6, 2));
  std::vector<std::string> ends;
  for (std::string& event : h.TakeEvents()) {
    if (event.rfind("finished", 0) == 0) ends.push_back(std::move(event));
  }
  EXPECT_THAT(ends,
              ElementsAre("finished 1 stop -1", "finished 1/1 error", "finished 1/2 stop -1"));
}

// A runner may still ask it for a mask.
TEST(ConstraintTest, LivesUntilTheLastStepOfItsSequenceIsBack) {
  SchedulerHarness h;
  const auto constraint = AllSamples(1);
  h.Add(1, 4, 9, With(constraint));
  h.Step();
  h.Schedule();
  h.Schedule();
  h.scheduler.Cancel(1, FinishReason::kAbort);
  EXPECT_EQ(constraint->num_alive(), 1u);
  h.Commit();
  EXPECT_EQ(constraint->num_alive(), 1u);
  h.Commit();
  EXPECT_EQ(constraint->num_alive(), 0u);

  const auto refused = AllSamples(2);
  refused->FailAt(0, 0, absl::InternalError("lost"));
  h.Add(2, 4, 9, With(refused));
  h.Schedule();
  h.Schedule();
  h.Commit();
  EXPECT_EQ(h.scheduler.TakeEvents().back().reason, FinishReason::kError);
  EXPECT_EQ(refused->num_alive(), 1u);
  h.Commit();
  EXPECT_EQ(refused->num_alive(), 0u);
}

TEST(ConstraintTest, IsGoneWithASequenceThatNeverRan) {
  SchedulerHarness h;
  const auto constraint = AllSamples(1);
  h.Add(1, 4, 9, With(constraint));
  h.scheduler.Cancel(1, FinishReason::kAbort);
  EXPECT_EQ(constraint->num_alive(), 0u);
}

}  // namespace
}  // namespace quire

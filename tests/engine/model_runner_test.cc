// ModelRunner by hand, without a scheduler: what a step's entries say is what the device does,
// eagerly and replayed, on every device.
#include "engine/runner/model_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "engine/engine_parts.h"
#include "tests/engine/graph_backend.h"
#include "tests/engine/tiny_engine.h"
#include "tests/scheduler/fake_constraint.h"

namespace quire {
namespace {

struct RunnerTarget {
  std::string name;
  DeviceKind device;
  bool replays;
};

std::vector<RunnerTarget> RunnerTargets() {
  std::vector<RunnerTarget> targets = {{"Eager", DeviceKind::kCpu, false},
                                       {"Replayed", DeviceKind::kCpu, true}};
  if (CudaAvailable()) {
    targets.push_back({"CudaEager", DeviceKind::kCuda, false});
    targets.push_back({"CudaReplayed", DeviceKind::kCuda, true});
  }
  return targets;
}

// A sequence on a row, and its blocks.
struct TestSequence {
  int32_t row;
  std::vector<TokenId> tokens;
  std::vector<BlockId> blocks;
  int64_t num_shown = 0;  // blocks that the runner has seen
  bool row_is_new = true;
  Request request = testing::GreedyRequest({}, 1);
};

class ModelRunnerTest : public ::testing::TestWithParam<RunnerTarget> {
 protected:
  void SetUp() override {
    EngineConfig config = testing::TinyConfig(testing::MakeTinyModelFolder());
    config.device = GetParam().device;
    config.enforce_eager = !GetParam().replays;
    config.uniform_query_lens = {1, 3};
    config.max_num_batched_tokens = 256;
    config.min_prefix_tokens = 1;
    const bool on_cpu = config.device == DeviceKind::kCpu;
    std::unique_ptr<Backend> backend;
    if (on_cpu && GetParam().replays) {
      backend = std::make_unique<testing::GraphBackend>(counts_);
    } else {
      backend = OpenBackend(config.backend_options()).value();
    }
    auto parts = OpenEngineParts(config, std::move(backend));
    ASSERT_TRUE(parts.ok()) << parts.status();
    parts_ = std::move(*parts);
  }

  ModelRunner& runner() { return *parts_->runner; }

  // Runs tokens [start, start + num_new); the last of them yields a token if `samples`.
  static ScheduledSequence Entry(TestSequence& sequence, int64_t start, int64_t num_new,
                                 bool samples) {
    ScheduledSequence entry = {};
    entry.key = {static_cast<RequestId>(1 + sequence.row), 0};
    entry.row = sequence.row;
    entry.row_is_new = std::exchange(sequence.row_is_new, false);
    entry.start = start;
    entry.num_new = num_new;
    entry.num_samples = samples ? 1 : 0;
    entry.input_on_device = start >= static_cast<int64_t>(sequence.tokens.size());
    entry.num_prompt_tokens = 1;
    entry.tokens = sequence.tokens;
    entry.block_tables = {sequence.blocks};
    entry.first_new_block =
        std::exchange(sequence.num_shown, static_cast<int64_t>(sequence.blocks.size()));
    entry.request = &sequence.request;
    return entry;
  }

  void Submit(std::vector<ScheduledSequence> entries) {
    SchedulerOutput output;
    output.step = next_step_++;
    for (const ScheduledSequence& entry : entries) output.num_tokens += entry.num_new;
    output.sequences = std::move(entries);
    runner().Submit(output);
    runner().Sample();
  }
  // The ids of the oldest step by sequence; -1 where none was sampled.
  std::vector<TokenId> Wait() {
    const absl::StatusOr<StepResult> result = runner().Wait();
    EXPECT_TRUE(result.ok()) << result.status();
    std::vector<TokenId> ids;
    for (const SequenceResult& sequence : result->sequences) {
      ids.push_back(sequence.samples.empty() ? -1 : sequence.samples[0].id);
    }
    return ids;
  }

  // The greedy answer to a prompt, its tokens computed one by one from the end of the prompt on.
  std::vector<TokenId> Greedy(TestSequence sequence, int num_tokens) {
    std::vector<TokenId> answer;
    const auto num_prompt_tokens = static_cast<int64_t>(sequence.tokens.size());
    Submit({Entry(sequence, 0, num_prompt_tokens, true)});
    for (int i = 0; i < num_tokens; ++i) {
      answer.push_back(Wait()[0]);
      sequence.tokens.push_back(answer.back());
      if (i + 1 < num_tokens) Submit({Entry(sequence, num_prompt_tokens + i, 1, true)});
    }
    return answer;
  }

  const std::shared_ptr<testing::StreamCounts> counts_ = std::make_shared<testing::StreamCounts>();
  std::unique_ptr<EngineParts> parts_;
  uint64_t next_step_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Steps, ModelRunnerTest, ::testing::ValuesIn(RunnerTargets()),
                         [](const auto& info) { return info.param.name; });

TEST_P(ModelRunnerTest, ResultsComeBackByPositionWhateverTheRow) {
  const std::vector<TokenId> a = testing::RandomPrompt(20, 1), b = testing::RandomPrompt(9, 2);
  const TokenId expected_a = Greedy({.row = 0, .tokens = a, .blocks = {4, 9}}, 1)[0];
  const TokenId expected_b = Greedy({.row = 1, .tokens = b, .blocks = {7}}, 1)[0];
  TestSequence first = {.row = 5, .tokens = b, .blocks = {2}};
  TestSequence second = {.row = 3, .tokens = testing::RandomPrompt(30, 3), .blocks = {11, 12}};
  TestSequence third = {.row = 0, .tokens = a, .blocks = {8, 1}};
  Submit({Entry(first, 0, 9, true), Entry(second, 0, 12, false), Entry(third, 0, 20, true)});
  EXPECT_EQ(Wait(), (std::vector<TokenId>{expected_b, -1, expected_a}));
}

TEST_P(ModelRunnerTest, AStepMayBeSubmittedBeforeItsInputIsKnown) {
  const std::vector<TokenId> prompt = testing::RandomPrompt(14, 4);
  const std::vector<TokenId> expected = Greedy({.row = 0, .tokens = prompt, .blocks = {3, 5}}, 6);
  TestSequence sequence = {.row = 2, .tokens = prompt, .blocks = {6, 10}};
  Submit({Entry(sequence, 0, 14, true)});
  std::vector<TokenId> answer;
  for (int i = 0; i < 5; ++i) {
    Submit({Entry(sequence, 14 + i, 1, true)});  // its input is still on the device
    answer.push_back(Wait()[0]);
    sequence.tokens.push_back(answer.back());
  }
  answer.push_back(Wait()[0]);
  EXPECT_EQ(answer, expected);
}

TEST_P(ModelRunnerTest, ATableThatShrankAndGrewHasItsNewBlocks) {
  const std::vector<TokenId> prompt = testing::RandomPrompt(40, 5);
  const TokenId expected = Greedy({.row = 0, .tokens = prompt, .blocks = {3, 5, 6}}, 1)[0];
  // Tokens 16 to 19 are tried with other ids and rejected, and with them their block.
  TestSequence sequence = {.row = 1, .tokens = testing::RandomPrompt(20, 6), .blocks = {13, 14}};
  std::copy_n(prompt.begin(), 16, sequence.tokens.begin());
  Submit({Entry(sequence, 0, 20, true)});
  Wait();
  sequence.tokens = prompt;
  sequence.blocks = {13, 20, 17};
  sequence.num_shown = 1;
  Submit({Entry(sequence, 16, 24, true)});
  EXPECT_EQ(Wait()[0], expected);
}

TEST_P(ModelRunnerTest, DecodesOfEveryBatchSizeAreThoseOfEachAlone) {
  constexpr int kMaxSeqs = 11, kNumTokens = 3;
  std::vector<TestSequence> sequences;
  std::vector<std::vector<TokenId>> expected;
  for (int i = 0; i < kMaxSeqs; ++i) {
    const std::vector<TokenId> prompt = testing::RandomPrompt(3 + i, 20 + i);
    expected.push_back(Greedy({.row = 15, .tokens = prompt, .blocks = {30, 31}}, kNumTokens));
    sequences.push_back(
        {.row = (i * 7) % kMaxSeqs, .tokens = prompt, .blocks = {2 * i, 2 * i + 1}});
  }
  for (int num_seqs = 1; num_seqs <= kMaxSeqs; ++num_seqs) {
    std::vector<TestSequence> batch(sequences.begin(), sequences.begin() + num_seqs);
    for (int step = 0; step < kNumTokens; ++step) {
      std::vector<ScheduledSequence> entries;
      for (TestSequence& sequence : batch) {
        const auto size = static_cast<int64_t>(sequence.tokens.size());
        entries.push_back(step == 0 ? Entry(sequence, 0, size, true)
                                    : Entry(sequence, size - 1, 1, true));
      }
      Submit(std::move(entries));
      const std::vector<TokenId> ids = Wait();
      for (int i = 0; i < num_seqs; ++i) {
        EXPECT_EQ(ids[i], expected[i][step]) << "sequence " << i << " of " << num_seqs;
        batch[i].tokens.push_back(expected[i][step]);
      }
    }
  }
}

// Several tokens of each sequence in one step, as drafts are verified: as many sequences as a size
// has, and fewer.
TEST_P(ModelRunnerTest, UniformStepsOfSeveralTokensAreThoseOfEachTokenAlone) {
  constexpr int kMaxSeqs = 5, kQueryLen = 3;
  std::vector<TestSequence> sequences;
  std::vector<TokenId> expected;
  for (int i = 0; i < kMaxSeqs; ++i) {
    const std::vector<TokenId> prompt = testing::RandomPrompt(9 + 4 * i, 40 + i);
    expected.push_back(Greedy({.row = 15, .tokens = prompt, .blocks = {30, 31}}, 1)[0]);
    sequences.push_back({.row = kMaxSeqs - i, .tokens = prompt, .blocks = {2 * i, 2 * i + 1}});
  }
  for (int num_seqs = 1; num_seqs <= kMaxSeqs; ++num_seqs) {
    std::vector<TestSequence> batch(sequences.begin(), sequences.begin() + num_seqs);
    std::vector<ScheduledSequence> prompts, ends;
    for (TestSequence& sequence : batch) {
      const auto size = static_cast<int64_t>(sequence.tokens.size());
      prompts.push_back(Entry(sequence, 0, size - kQueryLen, false));
      ends.push_back(Entry(sequence, size - kQueryLen, kQueryLen, true));
    }
    Submit(std::move(prompts));
    Submit(std::move(ends));
    Wait();
    EXPECT_EQ(Wait(), std::vector<TokenId>(expected.begin(), expected.begin() + num_seqs));
  }
}

// Two prefixes that several sequences share, sequences that have one to themselves or none, and a
// prompt beside them. In each step the answers are, in their places, those that each sequence has
// by itself.
TEST_P(ModelRunnerTest, DecodesThatSharePrefixesAreThoseOfEachAlone) {
  constexpr int kNumSeqs = 11, kNumTokens = 3, kPrefixTokens = 128, kPrefixBlocks = 8;
  const std::vector<TokenId> prefixes[] = {testing::RandomPrompt(kPrefixTokens, 60),
                                           testing::RandomPrompt(kPrefixTokens, 61),
                                           testing::RandomPrompt(kPrefixTokens, 62)};
  // The first sequence of a prefix computes it.
  const int prefix_of[kNumSeqs] = {0, 1, 0, 2, 1, 0, 1, 0, 1, 0, 2};
  std::vector<TestSequence> sequences;
  std::vector<std::vector<TokenId>> expected;
  std::vector<BlockId> alone(kPrefixBlocks + 2);
  std::iota(alone.begin(), alone.end(), 100);
  for (int i = 0; i < kNumSeqs; ++i) {
    const int prefix = prefix_of[i];
    std::vector<TokenId> prompt = prefixes[prefix];
    const std::vector<TokenId> rest = testing::RandomPrompt(3 + i, 70 + i);
    prompt.insert(prompt.end(), rest.begin(), rest.end());
    expected.push_back(Greedy({.row = 15, .tokens = prompt, .blocks = alone}, kNumTokens + 1));
    TestSequence sequence = {.row = (i * 7) % kNumSeqs, .tokens = prompt, .blocks = {}};
    for (int b = 0; b < kPrefixBlocks; ++b) sequence.blocks.push_back(kPrefixBlocks * prefix + b);
    sequence.blocks.push_back(40 + 2 * i);
    sequence.blocks.push_back(41 + 2 * i);
    sequences.push_back(std::move(sequence));
  }
  for (int prefix = 0; prefix < 3; ++prefix) {
    TestSequence first = sequences[std::find(prefix_of, prefix_of + kNumSeqs, prefix) - prefix_of];
    Submit({Entry(first, 0, kPrefixTokens, false)});
    Wait();
  }
  for (int i = 0; i < kNumSeqs; ++i) {
    TestSequence& sequence = sequences[i];
    Submit({Entry(sequence, kPrefixTokens, sequence.tokens.size() - kPrefixTokens, true)});
    EXPECT_EQ(Wait()[0], expected[i][0]);
    sequence.tokens.push_back(expected[i][0]);
  }
  for (int step = 1; step <= kNumTokens; ++step) {
    std::vector<ScheduledSequence> entries;
    entries.reserve(sequences.size() + 1);
    for (TestSequence& sequence : sequences) {
      entries.push_back(Entry(sequence, sequence.tokens.size() - 1, 1, true));
    }
    TestSequence other = {.row = 12, .tokens = prefixes[0], .blocks = alone};
    if (step == 2) entries.push_back(Entry(other, 0, 20, false));
    Submit(std::move(entries));
    const std::vector<TokenId> ids = Wait();
    for (int i = 0; i < kNumSeqs; ++i) {
      EXPECT_EQ(ids[i], expected[i][step]) << "sequence " << i << " step " << step;
      sequences[i].tokens.push_back(expected[i][step]);
    }
  }
}

// As the engine does it: the second step is on its way before the first one's token is known, and
// its mask depends on that token.
TEST_P(ModelRunnerTest, AMaskIsMadeWhenTheStepBeforeHasComeTrue) {
  const std::vector<TokenId> prompt = testing::RandomPrompt(14, 4);
  std::vector<TokenId> forced = prompt;
  forced.insert(forced.end(), {31, 8});
  const TokenId expected = Greedy({.row = 2, .tokens = forced, .blocks = {3}}, 1)[0];
  const auto masks = FakeConstraints::Script({31, 8});
  const std::unique_ptr<TokenConstraint> constraint = masks->New();
  TestSequence sequence = {.row = 1, .tokens = prompt, .blocks = {5}};
  const auto submit = [&](int64_t start, int64_t num_new, TokenConstraint* constraint) {
    SchedulerOutput output = {.step = next_step_++, .sequences = {}, .num_tokens = num_new};
    output.sequences = {Entry(sequence, start, num_new, true)};
    output.sequences[0].constraint = constraint;
    runner().Submit(output);
  };
  submit(0, 14, constraint.get());
  runner().Sample();
  for (const TokenId token : {31, 8}) {
    submit(sequence.tokens.size(), 1, token == 8 ? nullptr : constraint.get());
    const TokenId id = Wait()[0];
    EXPECT_EQ(id, token);
    ASSERT_TRUE(constraint->Accept(id).ok());
    sequence.tokens.push_back(id);
    runner().Sample();
  }
  EXPECT_EQ(Wait()[0], expected);
}

// Attention puts the decodes of a prefix beside each other; every third one has no mask.
TEST_P(ModelRunnerTest, MasksStayWithTheirRowsWhereDecodesShareAPrefix) {
  constexpr int kNumSeqs = 11, kPrefixTokens = 128, kPrefixBlocks = 8;
  std::vector<TestSequence> sequences;
  for (int i = 0; i < kNumSeqs; ++i) {
    const int prefix = i % 2;
    TestSequence sequence = {.row = (i * 7) % kNumSeqs,
                             .tokens = testing::RandomPrompt(kPrefixTokens, 60 + prefix),
                             .blocks = {}};
    sequence.blocks.resize(kPrefixBlocks);
    std::iota(sequence.blocks.begin(), sequence.blocks.end(), kPrefixBlocks * prefix);
    const int64_t start = i < 2 ? 0 : kPrefixTokens;
    const std::vector<TokenId> rest = testing::RandomPrompt(3 + i, 70 + i);
    sequence.tokens.insert(sequence.tokens.end(), rest.begin(), rest.end());
    sequence.blocks.insert(sequence.blocks.end(), {40 + 2 * i, 41 + 2 * i});
    const auto size = static_cast<int64_t>(sequence.tokens.size());
    Submit({Entry(sequence, start, size - 1 - start, false)});
    Wait();
    sequences.push_back(std::move(sequence));
  }
  std::vector<std::unique_ptr<TokenConstraint>> constraints;
  for (int i = 0; i < kNumSeqs; ++i) {
    constraints.push_back(FakeConstraints::AnyOf({20 + i})->New());
  }
  const auto decode = [&](bool masked) {
    std::vector<ScheduledSequence> entries;
    for (int i = 0; i < kNumSeqs; ++i) {
      entries.push_back(Entry(sequences[i], sequences[i].tokens.size() - 1, 1, true));
      if (masked && i % 3 != 0) entries.back().constraint = constraints[i].get();
    }
    Submit(std::move(entries));
    return Wait();
  };
  std::vector<TokenId> expected = decode(/*masked=*/false);
  for (int i = 0; i < kNumSeqs; ++i) {
    if (i % 3 != 0) expected[i] = 20 + i;
  }
  EXPECT_EQ(decode(/*masked=*/true), expected);
}

// Graphs that are captured while serving.
class LateGraphTest : public ModelRunnerTest {
 protected:
  // Sequences that begin with the same 128 tokens, all of whose tokens but the last are computed.
  std::vector<TestSequence> Sharers(int num_seqs) {
    std::vector<TestSequence> sharers;
    for (int i = 0; i < num_seqs; ++i) {
      TestSequence sequence = {.row = i, .tokens = testing::RandomPrompt(128, 60), .blocks = {}};
      const int64_t start = i == 0 ? 0 : static_cast<int64_t>(sequence.tokens.size());
      const std::vector<TokenId> rest = testing::RandomPrompt(10 + i, 70 + i);
      sequence.tokens.insert(sequence.tokens.end(), rest.begin(), rest.end());
      sequence.blocks.resize(8);
      std::iota(sequence.blocks.begin(), sequence.blocks.end(), 0);
      sequence.blocks.insert(sequence.blocks.end(), {40 + 2 * i, 41 + 2 * i});
      const auto size = static_cast<int64_t>(sequence.tokens.size());
      Submit({Entry(sequence, start, size - start, true)});
      sequence.tokens.push_back(Wait()[0]);
      sharers.push_back(std::move(sequence));
    }
    return sharers;
  }

  // Submits a decode of the last known token of each sequence, or of the token that comes `ahead`
  // of it.
  void SubmitDecodes(std::vector<TestSequence>& sharers, int64_t ahead) {
    std::vector<ScheduledSequence> entries;
    for (TestSequence& sequence : sharers) {
      const auto size = static_cast<int64_t>(sequence.tokens.size());
      entries.push_back(Entry(sequence, size - 1 + ahead, 1, true));
    }
    Submit(std::move(entries));
  }
};

INSTANTIATE_TEST_SUITE_P(Steps, LateGraphTest,
                         ::testing::Values(RunnerTarget{"Replayed", DeviceKind::kCpu, true}),
                         [](const auto& info) { return info.param.name; });

TEST_P(LateGraphTest, AStartCapturesTheStepsThatShareNothing) {
  const std::vector<UniformSize> sizes =
      UniformSizes({1, 3}, {.max_num_seqs = parts_->step.max_num_seqs,
                            .max_num_batched_tokens = parts_->step.max_num_batched_tokens,
                            .min_prefix_tokens = 1});
  const auto num_late = std::count_if(sizes.begin(), sizes.end(),
                                      [](UniformSize size) { return size.shares_prefixes; });
  ASSERT_GT(num_late, 1);
  EXPECT_EQ(counts_->num_captures, static_cast<int>(sizes.size()) - num_late);
  EXPECT_EQ(runner().late_bytes(), num_late * testing::GraphBackend::kGraphBytes);
}

TEST_P(LateGraphTest, TheFirstStepOfASizeIsCapturedAndLaterOnesAreReplayed) {
  int num_captures = counts_->num_captures;
  for (const int num_seqs : {5, 7, 11}) {  // sizes 8, 8 and 16
    std::vector<TestSequence> sharers = Sharers(num_seqs);
    const int num_replays = counts_->num_replays;
    EXPECT_EQ(counts_->num_captures, num_captures);
    SubmitDecodes(sharers, 0);
    SubmitDecodes(sharers, 1);  // while the first runs
    const bool is_new = num_seqs != 7;
    num_captures += is_new;
    EXPECT_EQ(counts_->num_captures, num_captures);
    EXPECT_EQ(counts_->num_replays, num_replays + (is_new ? 1 : 2));
    Wait();
    Wait();
  }
}

TEST_P(LateGraphTest, StepsGoOnWhereThereIsNoMemoryForOne) {
  constexpr int kNumSeqs = 5, kNumTokens = 4;
  std::vector<std::vector<TokenId>> answers[2];
  for (const bool is_short : {true, false}) {
    if (!is_short) SetUp();  // with the memory for it again
    std::vector<TestSequence> sharers = Sharers(kNumSeqs);
    const int num_captures = counts_->num_captures, num_replays = counts_->num_replays;
    if (is_short) counts_->most_captures = num_captures;
    for (int step = 0; step < kNumTokens; ++step) {
      SubmitDecodes(sharers, 0);
      answers[is_short].push_back(Wait());
      for (int i = 0; i < kNumSeqs; ++i) sharers[i].tokens.push_back(answers[is_short].back()[i]);
    }
    EXPECT_EQ(counts_->num_captures, num_captures + 1);  // not tried again
    EXPECT_EQ(counts_->num_replays, num_replays + (is_short ? 0 : kNumTokens - 1));
    counts_->most_captures = 1'000'000;
  }
  EXPECT_EQ(answers[true], answers[false]);
}

// Notes how many graphs had been captured when rows were sampled for the first time.
class SamplingBackend : public testing::GraphBackend {
 public:
  SamplingBackend(std::shared_ptr<testing::StreamCounts> counts, int* num_captures_before)
      : GraphBackend(counts), ops_(GraphBackend::ops(), std::move(counts), num_captures_before) {}
  Ops& ops() override { return ops_; }

 private:
  class NotingOps : public Ops {
   public:
    NotingOps(Ops& ops, std::shared_ptr<testing::StreamCounts> counts, int* num_captures_before)
        : ops_(ops), counts_(std::move(counts)), num_captures_before_(num_captures_before) {}

   private:
#define QUIRE_OP(name)                                            \
  void Enqueue(Stream& stream, const name##Args& args) override { \
    Note(args);                                                   \
    ops_.name(stream, args);                                      \
  }
    QUIRE_OPS(QUIRE_OP)
#undef QUIRE_OP

    template <typename Args>
    void Note(const Args&) {}
    void Note(const SampleArgs&) {
      if (*num_captures_before_ < 0) *num_captures_before_ = counts_->num_captures;
    }

    Ops& ops_;
    std::shared_ptr<testing::StreamCounts> counts_;
    int* const num_captures_before_;
  };

  NotingOps ops_;
};

// The KV cache takes what is left: the code of all kernels is loaded then, also that of sampling,
// which is in no graph.
TEST(StepCodeTest, AStepRunsAsAWholeBeforeMemoryIsMeasured) {
  const auto counts = std::make_shared<testing::StreamCounts>();
  int num_captures_before = -1;
  const auto parts =
      OpenEngineParts(testing::TinyConfig(testing::MakeTinyModelFolder()),
                      std::make_unique<SamplingBackend>(counts, &num_captures_before));
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_GT(counts->num_captures, 0);
  EXPECT_EQ(num_captures_before, 0);
}

TEST(LateGraphMemoryTest, TheKvCacheLeavesThemRoom) {
  constexpr int64_t kGraphBytes = testing::GraphBackend::kGraphBytes;
  constexpr int64_t kMemoryBytes = testing::GraphBackend::kMemoryBytes;
  EngineConfig config = testing::TinyConfig(testing::MakeTinyModelFolder());
  config.min_prefix_tokens = 1;
  // Five sizes are captured at start and two later.
  config.kv_cache_memory_bytes = kMemoryBytes - 6 * kGraphBytes;
  const absl::Status status =
      OpenEngineParts(config, std::make_unique<testing::GraphBackend>()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr(absl::StrCat(kMemoryBytes - 7 * kGraphBytes, " or less")));
}

}  // namespace
}  // namespace quire

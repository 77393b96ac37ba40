// The requests of quire-bench: workloads by seed, sampling flags, and the warning about cached
// prompts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "CLI/CLI.hpp"
#include "nlohmann/json.hpp"
#include "tools/bench/command_line.h"
#include "tools/bench/failure.h"
#include "tools/bench/run_header.h"
#include "tools/bench/sampling_flags.h"
#include "tools/bench/workload.h"

namespace quire::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kVocabSize = 500;
constexpr int64_t kContext = 1000;

WorkloadFlags Flags(uint64_t seed, int64_t shared_prefix_len = 0) {
  return {.num_prompts = 3,
          .input_len = 20,
          .output_len = 5,
          .shared_prefix_len = shared_prefix_len,
          .file = "",
          .seed = seed};
}

std::vector<std::vector<int32_t>> Prompts(const WorkloadFlags& flags) {
  const auto items = MakeWorkload(flags, kVocabSize, kContext);
  std::vector<std::vector<int32_t>> prompts;
  for (const WorkItem& item : items.value()) prompts.push_back(item.prompt);
  return prompts;
}

std::string WriteTemporary(const std::string& text) {
  const std::string path = ::testing::TempDir() + "quire_bench_workload.jsonl";
  std::ofstream(path) << text;
  return path;
}

absl::Status FileStatus(const std::string& text) {
  WorkloadFlags flags = Flags(1);
  flags.file = WriteTemporary(text);
  return MakeWorkload(flags, kVocabSize, kContext).status();
}

TEST(WorkloadTest, ASeedRepeatsItAndAnotherIsNew) {
  EXPECT_EQ(Prompts(Flags(1)), Prompts(Flags(1)));
  const auto one = Prompts(Flags(1)), other = Prompts(Flags(2));
  for (size_t i = 0; i < one.size(); ++i) EXPECT_NE(one[i], other[i]);
}

TEST(WorkloadTest, NoSeedIsANewOne) {
  EXPECT_EQ(ChooseSeed(7), 7u);
  EXPECT_NE(ChooseSeed({}), ChooseSeed({}));
  EXPECT_THAT(SeedText(42), HasSubstr("--seed 42 "));
}

TEST(WorkloadTest, SharesWhatIsAskedFor) {
  const auto prompts = Prompts(Flags(1, /*shared_prefix_len=*/15));
  for (const auto& prompt : prompts) {
    EXPECT_TRUE(std::equal(prompt.begin(), prompt.begin() + 15, prompts[0].begin()));
  }
  EXPECT_NE(prompts[0], prompts[1]);
  const auto too_long = MakeWorkload(Flags(1, 21), kVocabSize, kContext).status();
  EXPECT_EQ(ExitCodeOf(too_long), kUsage);
  EXPECT_THAT(std::string(too_long.message()), HasSubstr("--shared-prefix-len"));
}

TEST(WorkloadTest, TheContextMustHoldIt) {
  const auto status = MakeWorkload(Flags(1), kVocabSize, /*max_model_len=*/24).status();
  EXPECT_EQ(ExitCodeOf(status), kUsage);
  EXPECT_THAT(std::string(status.message()), HasSubstr("20 + 5 tokens"));
  EXPECT_TRUE(MakeWorkload(Flags(1), kVocabSize, /*max_model_len=*/25).ok());
}

TEST(WorkloadTest, AFileGivesTheLengths) {
  WorkloadFlags flags = Flags(1);
  flags.file = WriteTemporary(
      "{\"input_len\": 3, \"output_len\": 4}\n\n{\"input_len\": 5, \"output_len\": 6}\n");
  const auto items = MakeWorkload(flags, kVocabSize, kContext).value();
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[1].prompt.size(), 5u);
  EXPECT_EQ(items[1].output_len, 6);
  EXPECT_THAT(WorkloadText(flags, items), HasSubstr("8 + 10 tokens in all"));
  EXPECT_FALSE(WorkloadJson(flags, items).contains("input_len"));
}

TEST(WorkloadTest, ABadFileIsNamedByLine) {
  for (const char* bad : {"x", "{\"input_len\": 1}", "{\"input_len\": 0, \"output_len\": 1}",
                          "{\"input_len\": 1.5, \"output_len\": 1}", "[1, 2]",
                          "{\"input_len\": 100000000000, \"output_len\": 1}"}) {
    const absl::Status status =
        FileStatus(std::string("{\"input_len\": 1, \"output_len\": 1}\n\n") + bad + "\n");
    EXPECT_EQ(ExitCodeOf(status), kUsage) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("line 3")) << bad;
  }
  EXPECT_THAT(std::string(FileStatus("").message()), HasSubstr("no requests"));
  WorkloadFlags flags = Flags(1);
  flags.file = "/nonexistent/lengths.jsonl";
  EXPECT_EQ(ExitCodeOf(MakeWorkload(flags, kVocabSize, kContext).status()), kUsage);
}

// The error of parsing these arguments, or an empty string.
std::string ParseSampling(const std::vector<std::string>& args, SamplingFlags* flags) {
  CLI::App app;
  AddSamplingFlags(app, flags);
  AddIgnoreEosFlag(app, flags);
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return "";
}

TEST(SamplingFlagsTest, SayWhatIsMeasured) {
  SamplingFlags greedy;
  EXPECT_THAT(ParseSampling({}, &greedy), IsEmpty());
  EXPECT_EQ(SamplingText(greedy), "greedy, goes on after end tokens");
  SamplingFlags flags;
  EXPECT_THAT(ParseSampling({"--temperature", "0.8", "--top-p", "0.95", "--top-k", "40", "--min-p",
                             "0.1", "--repetition-penalty", "1.1", "--presence-penalty", "-0.5",
                             "--frequency-penalty", "0.5", "--no-ignore-eos"},
                            &flags),
              IsEmpty());
  EXPECT_TRUE(CheckSampling(flags).ok());
  EXPECT_EQ(SamplingText(flags),
            "temperature 0.8, top-p 0.95, top-k 40, min-p 0.1, repetition penalty 1.1, presence "
            "penalty -0.5, frequency penalty 0.5, stops at end tokens");
  EXPECT_EQ(SamplingJson(flags).dump(),
            "{\"temperature\":0.8,\"top_p\":0.95,\"top_k\":40,\"min_p\":0.1,"
            "\"repetition_penalty\":1.1,\"presence_penalty\":-0.5,\"frequency_penalty\":0.5,"
            "\"ignore_eos\":false}");
}

TEST(SamplingFlagsTest, WhatIsNotAllowedIsRefused) {
  SamplingFlags flags;
  for (const std::vector<std::string>& bad :
       std::vector<std::vector<std::string>>{{"--temperature", "-1"},
                                             {"--temperature", "nan"},
                                             {"--top-p", "0"},
                                             {"--top-p", "1.5"},
                                             {"--top-k", "-2"},
                                             {"--min-p", "2"},
                                             {"--repetition-penalty", "0"},
                                             {"--presence-penalty", "3"},
                                             {"--frequency-penalty", "x"}}) {
    EXPECT_THAT(ParseSampling(bad, &flags), HasSubstr(bad[0])) << bad[1];
  }
}

TEST(SamplingFlagsTest, AFlagWithoutEffectIsRefused) {
  for (const char* flag : {"--top-p", "--min-p"}) {
    SamplingFlags flags;
    ASSERT_THAT(ParseSampling({flag, "0.5"}, &flags), IsEmpty());
    EXPECT_EQ(ExitCodeOf(CheckSampling(flags)), kUsage);
    EXPECT_THAT(std::string(CheckSampling(flags).message()), HasSubstr(flag));
    flags.temperature = 1;
    EXPECT_TRUE(CheckSampling(flags).ok());
  }
  SamplingFlags penalty;  // changes what is most likely
  penalty.repetition_penalty = 1.2f;
  EXPECT_TRUE(CheckSampling(penalty).ok());
}

TEST(CachedPromptTest, WarnsAboveFivePercent) {
  EXPECT_THAT(CachedPromptWarning(1000, 0), IsEmpty());
  EXPECT_THAT(CachedPromptWarning(1000, 50), IsEmpty());
  EXPECT_THAT(CachedPromptWarning(0, 0), IsEmpty());
  EXPECT_THAT(CachedPromptWarning(1000, 800), HasSubstr("80 % of the prompt tokens"));
  EXPECT_THAT(CachedPromptWarning(1000, 60), HasSubstr("--shared-prefix-len"));
}

TEST(CommandLineTest, NamesTheNearestFlagOfBothPrograms) {
  CLI::App app;
  CLI::App* command = app.add_subcommand("throughput");
  WorkloadFlags flags;
  AddWorkloadFlags(*command, &flags);
  AcceptServerFlags(*command);
  const auto message = [&](std::vector<std::string> args) {
    app.clear();
    args.insert(args.begin(), "throughput");
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
    const auto line = ParseServerFlags(*command);
    EXPECT_EQ(ExitCodeOf(line.status()), kUsage);
    return std::string(line.status().message());
  };
  EXPECT_THAT(message({"--num-promts", "5"}), HasSubstr("did you mean --num-prompts?"));
  EXPECT_THAT(message({"--max-num-seq=5"}), HasSubstr("did you mean --max-num-seqs?"));
  EXPECT_THAT(message({"--qqqqqqqq"}), HasSubstr("throughput --help"));
  EXPECT_THAT(message({"--help-me"}), Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace quire::bench

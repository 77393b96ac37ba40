// Workloads of quire-bench serve that come from files or go in turns: traces, conversations, texts
// of exact lengths, and files that are saved and read again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tools/bench/failure.h"
#include "tools/bench/serve/dataset.h"
#include "tools/bench/serve/foreign_serve_flags.h"
#include "tools/bench/serve/prompt_words.h"
#include "tools/bench/serve/request_file.h"
#include "tools/bench/serve/serve_flags.h"
#include "tools/bench/serve/turn_report.h"

namespace quire::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string Write(const std::string& text) {
  const std::string path = absl::StrCat(::testing::TempDir(), "requests_", getpid());
  std::ofstream(path) << text;
  return path;
}

std::vector<Conversation> Read(const std::string& text, RequestFileOptions options = {}) {
  options.path = Write(text);
  const auto conversations = ReadRequestFile(options);
  EXPECT_TRUE(conversations.ok()) << conversations.status();
  return *conversations;
}

std::string Refusal(const std::string& text, RequestFileOptions options = {}) {
  options.path = Write(text);
  const auto conversations = ReadRequestFile(options);
  EXPECT_EQ(ExitCodeOf(conversations.status()), kUsage) << text;
  return std::string(conversations.status().message());
}

size_t NumAlike(const std::vector<int32_t>& one, const std::vector<int32_t>& other) {
  size_t count = 0;
  while (count < std::min(one.size(), other.size()) && one[count] == other[count]) ++count;
  return count;
}

TEST(RequestFileTest, EqualHashIdsAreEqualBlocks) {
  const auto all = Read(
      "{\"timestamp\": 5000, \"input_length\": 20, \"output_length\": 3, \"hash_ids\": [1, 2, 3]}\n"
      "{\"timestamp\": 4000, \"input_length\": 24, \"output_length\": 4, \"hash_ids\": [1, 2, 4]}\n"
      "{\"timestamp\": 4500, \"hash_ids\": [2]}\n"
      "{\"timestamp\": 4600, \"input_length\": 30, \"hash_ids\": [2]}\n"
      "{\"timestamp\": 4700, \"input_length\": 30, \"hash_ids\": [2]}\n",
      {.is_timed = true, .block_size = 8, .speedup = 2});
  ASSERT_THAT(all, SizeIs(5));  // by their times
  std::vector<double> times;
  for (const Conversation& one : all) times.push_back(one[0].due_seconds);
  EXPECT_THAT(times, testing::Pointwise(testing::DoubleNear(1e-9), {0.0, 0.25, 0.3, 0.35, 0.5}));
  const std::vector<int32_t>& longer = all[0][0].prompt;
  const std::vector<int32_t>& shorter = all[4][0].prompt;
  EXPECT_THAT(longer, SizeIs(24));
  EXPECT_THAT(shorter, SizeIs(20));
  EXPECT_EQ(NumAlike(longer, shorter), 16u);
  EXPECT_EQ(all[0][0].output_len, 4);
  EXPECT_EQ(all[1][0].prompt, std::vector<int32_t>(longer.begin() + 8, longer.begin() + 16));
  EXPECT_EQ(all[1][0].output_len, 256);
  EXPECT_EQ(NumAlike(all[2][0].prompt, all[3][0].prompt), 8u);  // beyond its block it is its own
}

TEST(RequestFileTest, PublishedCsvFilesAreRead) {
  const auto azure = Read(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
      "2023-11-16 18:17:03.9799600,48,10\n"
      "2023-11-16 18:17:04.2299600,30,20\r\n",
      {.is_timed = true});
  ASSERT_THAT(azure, SizeIs(2));
  EXPECT_NEAR(azure[1][0].due_seconds, 0.25, 1e-6);
  EXPECT_THAT(azure[0][0].prompt, SizeIs(48));
  EXPECT_EQ(azure[1][0].output_len, 20);
  const auto later = Read(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
      "2024-05-10 00:00:00.009930+00:00,4,1\n2024-05-10 00:00:01.009930+00:00,4,1\n",
      {.is_timed = true});
  EXPECT_NEAR(later[1][0].due_seconds, 1, 1e-6);
  const auto burst = Read(
      "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
      "5,ChatGPT,472,18,490,Conversation log\n"
      "45,ChatGPT,1087,0,1087,Conversation log\n"  // failed
      "118,GPT-4,417,276,693,Conversation log\n",
      {.is_timed = true, .speedup = 10});
  ASSERT_THAT(burst, SizeIs(2));
  EXPECT_DOUBLE_EQ(burst[1][0].due_seconds, 11.3);
  EXPECT_THAT(Refusal("Timestamp,Request tokens,Response tokens\n1,2\n"), HasSubstr("line 2"));
  EXPECT_THAT(Refusal("Timestamp,Request tokens,Response tokens\nx,2,3\n"),
              HasSubstr("neither seconds nor a date"));
}

TEST(RequestFileTest, SessionsAreConversations) {
  const auto all = Read(
      "{\"timestamp\": 0, \"session_id\": \"a\", \"prompt\": [1, 2]}\n"
      "{\"timestamp\": 1, \"session_id\": 7, \"prompt\": \"x\"}\n"
      "{\"session_id\": \"a\", \"prompt\": [3], \"delay\": 500, \"output_tokens\": 9}\n"
      "{\"timestamp\": 2, \"prompt\": \"y\"}\n",
      {.is_timed = true, .speedup = 2});
  ASSERT_THAT(all, SizeIs(3));
  ASSERT_THAT(all[0], SizeIs(2));
  EXPECT_FALSE(all[0][0].continues);
  EXPECT_TRUE(all[0][1].continues);
  EXPECT_DOUBLE_EQ(all[0][1].due_seconds, 0.25);
  EXPECT_THAT(all[0][1].prompt, ElementsAre(3));
  EXPECT_EQ(all[1][0].text, "x");
}

TEST(RequestFileTest, WrongLinesAreNamed) {
  EXPECT_THAT(Refusal("{\"prompt\": \"a\"}\n", {.is_timed = true}),
              HasSubstr("line 1: has no \"timestamp\""));
  for (const char* wrong :
       {"7", "{}", "{\"prompt\": \"\"}", "{\"prompt\": []}", "{\"prompt\": [-1]}",
        "{\"prompt\": \"a\", \"output_tokens\": 0}", "{\"input_length\": 0}",
        "{\"hash_ids\": [\"a\"]}", "{\"messages\": [{}]}", "{\"messages\": []}",
        "{\"prompt\": \"a\", \"delay\": -1}", "{\"hash_ids\": []}"}) {
    EXPECT_THAT(Refusal(absl::StrCat("{\"prompt\": \"a\"}\n", wrong)), HasSubstr("line 2: "));
  }
  EXPECT_THAT(
      Refusal("{\"session_id\": 1, \"prompt\": \"a\"}\n{\"session_id\": 1, \"prompt\": [1]}"),
      HasSubstr("of another kind"));
  EXPECT_THAT(Refusal("\n"), HasSubstr("has no requests"));
  std::string many;
  for (int i = 0; i < 100; ++i) many += "{\"input_length\": 16777216}\n";
  EXPECT_THAT(Refusal(many), HasSubstr("tokens together"));
}

TEST(RequestFileTest, WhatIsSavedIsReadAgain) {
  const std::vector<WorkItem> items = {
      {.prompt = {1, 2}, .output_len = 3},
      {.prompt = {4}, .output_len = 5, .continues = true},
      {.text = "a\n\"b\"", .output_len = 1},
      {.messages = {{"system", "s"}, {"user", "u"}}, .output_len = 2}};
  const std::vector<double> due = {0, 0.125, 0.5, 1.5};
  const auto all = Read(RequestFileText(items, due), {.is_timed = true});
  std::vector<WorkItem> read;
  for (const Conversation& one : all) read.insert(read.end(), one.begin(), one.end());
  ASSERT_THAT(read, SizeIs(4));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(read[i].prompt, items[i].prompt);
    EXPECT_EQ(read[i].text, items[i].text);
    EXPECT_EQ(read[i].output_len, items[i].output_len);
    EXPECT_EQ(read[i].continues, items[i].continues);
    EXPECT_DOUBLE_EQ(read[i].due_seconds, due[i]);
    ASSERT_EQ(read[i].messages.size(), items[i].messages.size());
  }
  EXPECT_EQ(read[3].messages[1].content, "u");
  EXPECT_EQ(RequestFileText(read, due), RequestFileText(items, due));
}

std::vector<WorkItem> Make(const DatasetFlags& flags, int64_t max_model_len = 0) {
  const auto items = MakeDataset(flags, 1000, max_model_len);
  EXPECT_TRUE(items.ok()) << items.status();
  return *items;
}

std::string Problem(const DatasetFlags& flags, int64_t max_model_len = 0) {
  const auto items = MakeDataset(flags, 1000, max_model_len);
  EXPECT_EQ(ExitCodeOf(items.status()), kUsage);
  return std::string(items.status().message());
}

TEST(ConversationsTest, RandomOnesHaveTheTurnsThatAreAskedFor) {
  DatasetFlags flags;
  flags.random = {
      .num_prompts = 300, .input_len = 10, .output_len = 4, .shared_prefix_len = 6, .seed = 5};
  flags.conversation = {.turn_mean = 4,
                        .turn_stddev = 1,
                        .max_turns = 6,
                        .delay_mean_ms = 100,
                        .delay_stddev_ms = 200};
  const auto items = Make(flags);
  int64_t num_turns = 0, most = 0;
  std::vector<int64_t> lengths;
  std::set<std::vector<int32_t>> beginnings;
  std::set<double> delays;
  for (const WorkItem& item : items) {
    ASSERT_THAT(item.prompt, SizeIs(10));
    const std::vector<int32_t> beginning(item.prompt.begin(), item.prompt.begin() + 6);
    if (!item.continues) {
      lengths.push_back(0);
      beginnings.insert(beginning);
      EXPECT_EQ(item.due_seconds, 0);
    } else {
      EXPECT_EQ(beginnings.count(beginning), 0u);
      EXPECT_GE(item.due_seconds, 0);
      delays.insert(item.due_seconds);
    }
    most = std::max(most, ++lengths.back());
    ++num_turns;
  }
  EXPECT_THAT(lengths, SizeIs(300));
  EXPECT_EQ(most, 6);
  EXPECT_NEAR(static_cast<double>(num_turns) / 300, 4, 0.3);
  EXPECT_THAT(beginnings, SizeIs(1));
  EXPECT_GT(delays.size(), 100u);
  EXPECT_TRUE(SharesPrefixes(flags, items));
  EXPECT_EQ(DatasetJson(flags, items)["num_conversations"], 300);
  // The same for the same seed.
  const auto again = Make(flags);
  ASSERT_EQ(again.size(), items.size());
  EXPECT_EQ(again.back().prompt, items.back().prompt);
  EXPECT_EQ(again.back().due_seconds, items.back().due_seconds);
  // All turns together have to fit.
  flags.conversation = {.turn_mean = 3};
  EXPECT_THAT(Make(flags, 42), SizeIs(900));
  EXPECT_THAT(Problem(flags, 41), HasSubstr("do not fit the context of 41 tokens"));
  flags.random.shared_prefix_len = 11;
  EXPECT_THAT(Problem(flags), HasSubstr("--shared-prefix-len"));
}

constexpr char kShareGpt[] = R"([{"conversations": [{"value": "q1"}, {"value": "a1"},
    {"value": "q2"}, {"value": "a2"}, {"value": "q3"}]}, {"conversations": [{"value": "only"}]},
    {"conversations": [{"value": "p1"}, {"value": "b1"}]}])";

TEST(ConversationsTest, ShareGptsHaveTheirQuestionsInTurns) {
  DatasetFlags flags = {.name = "sharegpt", .path = Write(kShareGpt), .keeps_order = true};
  flags.random.num_prompts = 3;
  const auto texts = [&] {
    std::vector<std::string> all;
    for (const WorkItem& item : Make(flags)) {
      const std::string text = item.text.empty() ? "chat " + item.messages[0].content : item.text;
      all.push_back(absl::StrCat(item.continues ? "+" : "", text));
    }
    return all;
  };
  EXPECT_THAT(texts(), ElementsAre("q1", "p1", "q1"));
  flags.conversation.max_turns = 5;
  EXPECT_THAT(texts(), ElementsAre("chat q1", "+chat q2", "p1", "chat q1", "+chat q2"));
  flags.takes_messages = false;
  EXPECT_THAT(texts(), ElementsAre("q1", "+q2", "p1", "q1", "+q2"));
  flags.no_oversample = true;
  EXPECT_THAT(texts(), ElementsAre("q1", "+q2", "p1"));
  flags.tells_text = false;
  EXPECT_THAT(Problem(flags), HasSubstr("answers have no text"));
}

TEST(ConversationsTest, ABackendThatCannotGoOnIsRefused) {
  DatasetFlags flags = {.name = "custom",
                        .path = Write("{\"session_id\": 1, \"prompt\": [1]}\n"
                                      "{\"session_id\": 1, \"prompt\": [2]}\n")};
  flags.random.num_prompts = 1;
  EXPECT_THAT(Make(flags), SizeIs(2));
  flags.tells_token_ids = false;
  EXPECT_THAT(Problem(flags), HasSubstr("answers have no token ids"));
  flags.text = true;
  EXPECT_THAT(Problem(flags), HasSubstr("chats do not take"));
  flags = {.name = "custom",
           .path = Write("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}"),
           .takes_messages = false};
  EXPECT_THAT(Problem(flags), HasSubstr("has messages"));
}

TEST(TraceTest, SendsAtItsTimesWhatFits) {
  DatasetFlags flags = {
      .name = "timed_trace",
      .path = Write("{\"timestamp\": 3, \"input_length\": 50, \"output_length\": 1}\n"
                    "{\"timestamp\": 1, \"input_length\": 5, \"output_length\": 1}\n"
                    "{\"timestamp\": 5, \"input_length\": 5, \"output_length\": 1}\n"),
      .trace_seconds_per_unit = 1};
  flags.random.num_prompts = 10;
  auto items = Make(flags);
  EXPECT_THAT(DueTimes(flags, {}, items), ElementsAre(0, 2, 4));
  EXPECT_TRUE(SharesPrefixes(flags, items));
  EXPECT_THAT(Problem(flags, 50), HasSubstr("1 of 3 requests, of up to 51 tokens"));
  flags.skips_too_long = true;
  items = Make(flags, 50);
  EXPECT_THAT(DueTimes(flags, {}, items), ElementsAre(0, 4));
  EXPECT_THAT(Problem(flags, 5), HasSubstr("3 of 3 requests"));
  flags.random.num_prompts = 2;
  EXPECT_THAT(Make(flags), SizeIs(2));
  flags.text = true;
  EXPECT_EQ(Make(flags)[0].prompt.size(), 0u);
  EXPECT_THAT(std::vector<std::string>(absl::StrSplit(Make(flags)[0].text, ' ')), SizeIs(5));
}

TEST(TraceTest, OtherDatasetsAreSentByArrivals) {
  DatasetFlags flags = {.random = {.seed = 4}};
  const std::vector<WorkItem> items = {{}, {.continues = true, .due_seconds = 7}, {}, {}};
  const Arrivals arrivals = {.rate = 10};
  const auto drawn = DrawArrivals(arrivals, 3, 4);
  EXPECT_THAT(DueTimes(flags, arrivals, items), ElementsAre(drawn[0], 7, drawn[1], drawn[2]));
}

std::shared_ptr<const Tokenizer> DemoTokenizer() {
  const auto tokenizer = Tokenizer::Load("configs/demo");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *tokenizer;
}

TEST(PromptWordsTest, ATokenizerMakesExactLengths) {
  const auto tokenizer = DemoTokenizer();
  const PromptWords words(77, tokenizer);
  for (const int length : {1, 2, 17, 300}) {
    std::vector<int32_t> ids(length);
    for (int i = 0; i < length; ++i) ids[i] = (i * 7919 + length) % 1000;
    const auto text = words.Text(ids);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(tokenizer->Encode(*text)->size(), ids.size());
  }
  // Equal beginnings of ids are equal beginnings of texts.
  const std::string one = *words.Text({1, 2, 3, 4, 5, 6}), other = *words.Text({1, 2, 3, 4, 5, 9});
  EXPECT_NE(one, other);
  EXPECT_EQ(one.substr(0, one.rfind(' ')), other.substr(0, other.rfind(' ')));
}

TEST(PromptWordsTest, ATokenizerCountsAnswersOfFiles) {
  DatasetFlags flags = {.name = "sharegpt", .path = Write(R"([{"conversations": [{"value": "q"},
                            {"value": "one two three four five"}]}])")};
  flags.random.num_prompts = 1;
  flags.tokenizer = DemoTokenizer();
  EXPECT_EQ(Make(flags)[0].output_len, CountTokens(*flags.tokenizer, "one two three four five"));
  EXPECT_THAT(Problem(flags, 2), HasSubstr("do not fit"));
}

TEST(TurnReportTest, CountsByTurn) {
  std::vector<RequestRecord> records(4);
  for (int i = 0; i < 4; ++i) {
    records[i].outcome = i == 3 ? Outcome::kFailed : Outcome::kCompleted;
    records[i].turn = i % 2;
    records[i].sent = 1;
    records[i].first_token = 1.01 + 0.01 * i;
    records[i].ended = 2;
    records[i].prompt_tokens = 100;
    records[i].cached_tokens = 60 * (i % 2);
    records[i].completion_tokens = 5;
  }
  const auto turns = MakeTurnReports(records, {});
  ASSERT_THAT(turns, SizeIs(2));
  EXPECT_EQ(turns[0].num_completed, 2);
  EXPECT_EQ(turns[1].num_completed, 1);
  const auto json = ToJson(turns);
  EXPECT_EQ(json[1]["turn"], 2);
  EXPECT_EQ(json[1]["cached_share"], 0.6);
  EXPECT_NEAR(json[0]["mean_ttft_ms"].get<double>(), 20, 1e-9);
  EXPECT_NEAR(json[1]["mean_ttft_ms"].get<double>(), 20, 1e-9);
  EXPECT_THAT(ToText(turns), HasSubstr("1 request, 100 prompt tokens each, 60.0 % cached"));
  EXPECT_EQ(ToText(MakeTurnReports({records[0]}, {})), "");
}

// Reads the command line into `flags`. Returns the error that it ends with, or nothing.
std::string Parse(const std::vector<std::string>& arguments, ServeFlags* flags) {
  CLI::App app;
  CLI::App* command = app.add_subcommand("serve");
  AddServeFlags(*command, flags);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  reversed.emplace_back("serve");
  app.parse(reversed);
  return std::string(CheckServeFlags(flags).message());
}

TEST(ServeFlagsTest, DatasetsFollowFromTheFlags) {
  ServeFlags trace;
  EXPECT_EQ(Parse({"--trace-file", "f.jsonl", "--trace-time-unit", "s", "--host", "::1", "--port",
                   "9000", "--served-model-name", "mine"},
                  &trace),
            "");
  EXPECT_EQ(trace.dataset.name, "timed_trace");
  EXPECT_EQ(trace.dataset.path, "f.jsonl");
  EXPECT_EQ(trace.dataset.trace_seconds_per_unit, 1);
  EXPECT_GT(trace.dataset.random.num_prompts, 1'000'000'000);
  EXPECT_TRUE(trace.report.from_due);
  EXPECT_EQ(trace.target, "[::1]:9000");
  EXPECT_EQ(trace.server.model, "mine");
  EXPECT_TRUE(trace.server.keeps_answers);
  ServeFlags prefixes;
  EXPECT_EQ(Parse({"--dataset-name", "generated-shared-prefix", "--gsp-num-groups", "3",
                   "--gsp-question-len", "7", "--host", "gpu"},
                  &prefixes),
            "");
  EXPECT_EQ(prefixes.dataset.name, "prefix_repetition");
  EXPECT_EQ(prefixes.dataset.num_prefixes, 3);
  EXPECT_EQ(prefixes.dataset.suffix_len, 7);
  EXPECT_EQ(prefixes.target, "gpu:8000");
  EXPECT_FALSE(prefixes.server.keeps_answers);
  ServeFlags texts;
  EXPECT_EQ(Parse({"--backend", "openai", "--conversation-turn-mean", "2"}, &texts), "");
  EXPECT_TRUE(texts.dataset.text);
}

TEST(ServeFlagsTest, ContradictionsAreRefused) {
  const auto refusal = [](const std::vector<std::string>& arguments) {
    ServeFlags flags;
    return Parse(arguments, &flags);
  };
  EXPECT_THAT(refusal({"--trace-file", "f", "--request-rate", "1"}), HasSubstr("--trace-speedup"));
  EXPECT_THAT(refusal({"--trace-file", "f", "--dataset-name", "custom"}),
              HasSubstr("a dataset of its own"));
  EXPECT_THAT(refusal({"--trace-speedup", "2"}), HasSubstr("goes with --trace-file"));
  EXPECT_THAT(refusal({"--dataset-name", "sharegpt", "--dataset-path", "f",
                       "--conversation-turn-mean", "2"}),
              HasSubstr("use --max-turns"));
  EXPECT_THAT(refusal({"--trace-file", "f", "--max-turns", "2"}), HasSubstr("session_id"));
  EXPECT_THAT(refusal({"--append-result"}), HasSubstr("--result-filename"));
  EXPECT_THAT(refusal({"--tokenizer", "/nowhere"}), HasSubstr("--tokenizer: "));
  EXPECT_THAT(refusal({"--host", "a b"}), HasSubstr("--host: "));
  EXPECT_EQ(refusal({"--lora-modules", "a", "b"}),
            "--lora-modules: not supported yet: no LoRA adapters");
  EXPECT_EQ(
      refusal({"--gsp-prompts-per-group=4"}).find("--gsp-prompts-per-group: use --num-prompts"),
      0u);
}

TEST(ServeFlagsTest, NoFlagIsBothOursAndForeign) {
  CLI::App app;
  CLI::App* command = app.add_subcommand("serve");
  ServeFlags flags;
  AddServeFlags(*command, &flags);
  for (const CLI::Option* option : command->get_options()) {
    for (const std::string& name : option->get_lnames()) {
      EXPECT_EQ(ForeignFlagAdvice("--" + name, ForeignServeFlagTable()), "") << name;
    }
  }
}

}  // namespace
}  // namespace quire::bench

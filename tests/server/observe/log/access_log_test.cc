// The log: one line for each call, even if a stranger chose its words; as text and as JSON.
#include "server/observe/log/access_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/details/log_msg.h>

#include <mutex>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "server/observe/log/json_formatter.h"
#include "server/request/output/access_tokens.h"
#include "server/text/json_text.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

AccessEntry Generated() {
  AccessEntry entry;
  entry.request_id = "0af7";
  entry.trace_id = "4bf92f35";
  entry.principal = "alice";
  entry.peer = "203.0.113.7";
  entry.method = "/quire.v1.Inference/Generate";
  entry.model = "demo";
  entry.finish_reason = "stop";
  entry.total_ms = 12.345;
  entry.received_bytes = 100;
  entry.sent_bytes = 2000;
  entry.prompt_tokens = 22;
  entry.cached_tokens = 16;
  entry.generated_tokens = 5;
  entry.queue_ms = 0.25;
  entry.prefill_ms = 3;
  entry.decode_ms = 9;
  return entry;
}

AccessEntry Refused() {
  AccessEntry entry;
  entry.principal = "peer:203.0.113.7";
  entry.peer = "203.0.113.7";
  entry.method = "/quire.v1.Admin/GetStatus";
  entry.status = absl::StatusCode::kPermissionDenied;
  return entry;
}

TEST(AccessEntryTest, AsText) {
  EXPECT_EQ(AccessText(Generated()),
            "access request_id=0af7 trace_id=4bf92f35 principal=alice peer=203.0.113.7 "
            "method=/quire.v1.Inference/Generate model=demo status=OK prompt_tokens=22 "
            "cached_tokens=16 generated_tokens=5 finish_reason=stop queue_ms=0.25 prefill_ms=3.00 "
            "decode_ms=9.00 total_ms=12.35 received_bytes=100 sent_bytes=2000");
  EXPECT_EQ(AccessText(Refused()),
            "access principal=peer:203.0.113.7 peer=203.0.113.7 method=/quire.v1.Admin/GetStatus "
            "status=PERMISSION_DENIED total_ms=0.00 received_bytes=0 sent_bytes=0");
}

TEST(AccessEntryTest, AsJson) {
  const auto json = nlohmann::json::parse("{" + AccessJson(Generated()) + "}");
  EXPECT_EQ(json["request_id"], "0af7");
  EXPECT_EQ(json["trace_id"], "4bf92f35");
  EXPECT_EQ(json["method"], "/quire.v1.Inference/Generate");
  EXPECT_EQ(json["status"], "OK");
  EXPECT_EQ(json["prompt_tokens"], 22);
  EXPECT_EQ(json["queue_ms"], 0.25);
  EXPECT_EQ(json["sent_bytes"], 2000);
  const auto refused = nlohmann::json::parse("{" + AccessJson(Refused()) + "}");
  EXPECT_FALSE(refused.contains("prompt_tokens"));
  EXPECT_FALSE(refused.contains("request_id"));
  EXPECT_FALSE(refused.contains("trace_id"));
}

TEST(AccessEntryTest, WhatAClientChoseLooksLikeNothingElse) {
  AccessEntry entry = Generated();
  entry.request_id = "x status=OK\nfake \"line\" \x1b[31m\xff";
  entry.method = "/" + std::string(10000, 'a');
  const std::string text = AccessText(entry);
  EXPECT_THAT(text, HasSubstr(R"(request_id="x status=OK\nfake \"line\" \u001b[31m\ufffd" )"));
  EXPECT_THAT(text, Not(HasSubstr("\n")));
  EXPECT_LT(text.size(), 1000);
  EXPECT_EQ(nlohmann::json::parse("{" + AccessJson(entry) + "}")["status"], "OK");
}

// The lines that a log writes, which ends when this is asked for them.
class Lines {
 public:
  explicit Lines(LogFormat format = LogFormat::kText)
      : log_(std::make_unique<AccessLog>(format,
                                         [this](const std::string& line) { Write(line); })) {}

  AccessLog& log() { return *log_; }
  std::vector<std::string> Take() {
    log_.reset();
    return lines_;
  }
  // The log's thread waits in its next line until this is destroyed.
  class Stall {
   public:
    explicit Stall(Lines* lines) : lock_(lines->mutex_) {}

   private:
    std::lock_guard<std::mutex> lock_;
  };

 private:
  void Write(const std::string& line) {
    const std::lock_guard<std::mutex> lock(mutex_);
    lines_.push_back(line);
  }

  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::unique_ptr<AccessLog> log_;
};

// The sums of the three numbers in the lines about lines that were left out, and how many other
// lines.
struct Counts {
  int64_t errors = 0;
  int64_t beyond_rate = 0;
  int64_t waiting = 0;
  int64_t lines = 0;
};

Counts Count(const std::vector<std::string>& lines) {
  Counts counts;
  for (const std::string& line : lines) {
    if (!absl::StartsWith(line, "access lines left out: ")) {
      ++counts.lines;
      continue;
    }
    std::vector<int64_t> numbers;
    const absl::string_view counts_of = absl::string_view(line).substr(0, line.find(';'));
    for (absl::string_view word : absl::StrSplit(counts_of, ' ')) {
      int64_t number = 0;
      if (absl::SimpleAtoi(word, &number)) numbers.push_back(number);
    }
    EXPECT_THAT(numbers, SizeIs(3)) << line;
    counts.errors += numbers[0];
    counts.beyond_rate += numbers[1];
    counts.waiting += numbers[2];
  }
  return counts;
}

TEST(AccessLogTest, EveryCallThatWentWellIsALine) {
  Lines lines;
  for (int i = 0; i < 1000; ++i) {
    AccessEntry entry = Generated();
    entry.request_id = absl::StrCat("r", i);
    lines.log().Add(entry, absl::Now());
  }
  const std::vector<std::string> written = lines.Take();
  ASSERT_THAT(written, SizeIs(1000));
  for (int i = 0; i < 1000; ++i) {
    EXPECT_THAT(written[i], StartsWith(absl::StrCat("access request_id=r", i, " ")));
  }
}

TEST(AccessLogTest, RefusalsDoNotFillTheLog) {
  Lines lines;
  const absl::Time start = absl::UnixEpoch();
  for (int i = 0; i < 5000; ++i) lines.log().Add(Refused(), start + absl::Microseconds(i));
  lines.log().Add(Generated(), start + absl::Milliseconds(10));
  for (int i = 0; i < 5; ++i) lines.log().Add(Refused(), start + absl::Seconds(1));
  const Counts counts = Count(lines.Take());
  EXPECT_EQ(counts.lines, AccessLog::kMaxErrorsPerSecond + 1 + 5);
  EXPECT_EQ(counts.errors, 5000 - AccessLog::kMaxErrorsPerSecond);
  EXPECT_EQ(counts.waiting, 0);
}

TEST(AccessLogTest, OneClientsFloodLeavesTheOthersLines) {
  Lines lines;
  const absl::Time start = absl::UnixEpoch();
  for (int i = 0; i < 3000; ++i) {
    const absl::Time now = start + absl::Microseconds(i);
    for (AccessEntry flood : {Generated(), Refused()}) {
      flood.peer = "198.51.100.9";
      lines.log().Add(flood, now);
    }
    if (i % 1000 == 999) lines.log().Add(Generated(), now);
    if (i % 1000 == 999) lines.log().Add(Refused(), now);
  }
  int64_t num_others = 0;
  std::string omitted;
  const std::vector<std::string> written = lines.Take();
  for (const std::string& line : written) {
    if (absl::StrContains(line, "peer=203.0.113.7")) ++num_others;
    if (absl::StartsWith(line, "access lines left out")) omitted = line;
  }
  EXPECT_EQ(num_others, 6);
  const Counts counts = Count(written);
  EXPECT_EQ(counts.lines, 6 + AccessLog::kMaxLinesPerSecond + AccessLog::kMaxErrorsPerSecond);
  EXPECT_EQ(counts.beyond_rate, 3000 - AccessLog::kMaxLinesPerSecond);
  EXPECT_EQ(counts.errors, 3000 - AccessLog::kMaxErrorsPerSecond);
  EXPECT_THAT(omitted, HasSubstr("; most of 198.51.100.9"));
}

TEST(AccessLogTest, ManyAddressesShareARateInTheEnd) {
  constexpr int kNumAddresses = 5000;
  Lines lines;
  for (int i = 0; i < kNumAddresses; ++i) {
    AccessEntry entry = Refused();
    entry.peer = absl::StrCat("address", i);
    lines.log().Add(entry, absl::UnixEpoch());
  }
  const Counts counts = Count(lines.Take());
  EXPECT_EQ(counts.lines,
            static_cast<int64_t>(AccessLog::kMaxAddresses) + AccessLog::kMaxErrorsPerSecond);
  EXPECT_EQ(counts.lines + counts.errors, kNumAddresses);
}

TEST(AccessLogTest, ALogThatNobodyReadsHoldsUpNoCallAndStaysSmall) {
  constexpr int kNumEntries = 30000;
  Lines lines;
  {
    const Lines::Stall stall(&lines);
    for (int i = 0; i < kNumEntries; ++i) {
      lines.log().Add(Generated(), absl::UnixEpoch() + absl::Milliseconds(i));
    }
  }
  const Counts counts = Count(lines.Take());
  EXPECT_EQ(counts.lines + counts.waiting, kNumEntries);
  EXPECT_LE(counts.lines, 2 * AccessLog::kMaxWaiting) << "those that wait, and those being written";
  EXPECT_GT(counts.waiting, 0);
}

TEST(AccessLogTest, JsonLinesAreObjectsAlsoWhenTheyCount) {
  Lines lines(LogFormat::kJson);
  for (int i = 0; i < 30; ++i) lines.log().Add(Refused(), absl::UnixEpoch());
  int64_t num_omitted = 0;
  for (const std::string& line : lines.Take()) {
    const auto json = nlohmann::json::parse("{" + line + "}");
    num_omitted += json.value("omitted_errors", 0);
  }
  EXPECT_EQ(num_omitted, 30 - AccessLog::kMaxErrorsPerSecond);
}

std::string Formatted(const std::string& logger, const std::string& message) {
  spdlog::details::log_msg log_message(logger, spdlog::level::info, message);
  log_message.time = std::chrono::system_clock::from_time_t(1) + std::chrono::milliseconds(23);
  spdlog::memory_buf_t line;
  JsonFormatter().format(log_message, line);
  return {line.data(), line.size()};
}

TEST(JsonStringTest, ReadsAsWhatItWas) {
  for (int c = 0; c < 128; ++c) {
    for (const std::string& text : {std::string(1, static_cast<char>(c)),
                                    absl::StrCat("a", std::string(1, static_cast<char>(c)), "z")}) {
      const std::string json = JsonString(text);
      EXPECT_EQ(nlohmann::json::parse(json).get<std::string>(), text) << json;
      for (const char byte : json) EXPECT_TRUE(byte >= ' ' && byte <= '~') << json;
    }
  }
  EXPECT_EQ(JsonString(""), "\"\"");
  EXPECT_EQ(JsonString("a/b \"c\" \\ \n"), R"("a/b \"c\" \\ \n")");
  EXPECT_EQ(JsonString("\xc3\xa9 \x7f"), R"("\u00e9 \u007f")");
  EXPECT_EQ(JsonString("\xff"), R"("\ufffd")");
}

TEST(JsonFormatterTest, OneObjectALine) {
  EXPECT_EQ(Formatted("quire", "two\n\"lines\"\xff"),
            "{\"time\":\"1970-01-01T00:00:01.023Z\",\"level\":\"info\","
            "\"message\":\"two\\n\\\"lines\\\"\\ufffd\"}\n");
  EXPECT_EQ(Formatted(kAccessLogger, "\"status\":\"OK\""),
            "{\"time\":\"1970-01-01T00:00:01.023Z\",\"level\":\"info\",\"message\":\"access\","
            "\"status\":\"OK\"}\n");
}

TEST(AccessTokensTest, OfAllContinuations) {
  AccessEntry entry;
  NotePart(Started{.request_id = "r", .prompt_tokens = 22, .cached_tokens = 16}, &entry);
  NotePart(Delta{.text = "secret"}, &entry);
  for (int tokens : {3, 4}) {
    NotePart(Finished{.reason = tokens == 3 ? FinishReason::kStop : FinishReason::kLength,
                      .usage = {.completion_tokens = tokens},
                      .timings = {.queue_ms = 1, .prefill_ms = 2, .decode_ms = 1.0 * tokens}},
             &entry);
  }
  EXPECT_EQ(entry.request_id, "r");
  EXPECT_EQ(entry.prompt_tokens, 22);
  EXPECT_EQ(entry.cached_tokens, 16);
  EXPECT_EQ(entry.generated_tokens, 7);
  EXPECT_EQ(entry.finish_reason, "length");
  EXPECT_EQ(entry.queue_ms, 1);
  EXPECT_EQ(entry.prefill_ms, 2);
  EXPECT_EQ(entry.decode_ms, 4);
  EXPECT_THAT(AccessText(entry), Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace quire

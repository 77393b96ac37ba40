// The results that quire-bench makes of its runs: reports of whole and interrupted ones, which
// cases fit, and files that are written whole or not at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "nlohmann/json.hpp"
#include "tools/bench/engine/engine_load.h"
#include "tools/bench/engine/memory_fit.h"
#include "tools/bench/failure.h"
#include "tools/bench/result_file.h"

namespace quire::bench {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void SetTokens(double first_token, const std::vector<float>& itl_ms, RequestRecord* record) {
  record->first_token = first_token;
  record->itl_ms = itl_ms;
  record->last_token = first_token + std::accumulate(itl_ms.begin(), itl_ms.end(), 0.0) / 1000;
  record->ended = record->last_token;
  record->num_tokens = record->completion_tokens = 1 + std::ssize(itl_ms);
}

TEST(EngineLoadTest, CountsTheTokensThatCame) {
  std::vector<RequestRecord> records(3);
  for (RequestRecord& record : records) {
    record.outcome = Outcome::kInterrupted;
    record.prompt_tokens = 10;
    record.is_counted = true;
  }
  records[0].outcome = Outcome::kCompleted;
  SetTokens(0.005, {1, 1}, &records[0]);  // an end token came before all 8
  records[0].cached_tokens = 4;
  SetTokens(0.006, {2}, &records[1]);
  LoadResult load;
  AddToLoad(records, /*seconds=*/0, &load);
  const auto json =
      EngineReportJson(MakeServeReport(load, EngineReportOptions()), load, EngineReportOptions());
  EXPECT_EQ(json["completed"], 1);
  EXPECT_EQ(json["unfinished"], 2);
  EXPECT_EQ(json["total_input_tokens"], 20);  // of the two that got so far
  EXPECT_EQ(json["cached_input_tokens"], 4);
  EXPECT_EQ(json["total_output_tokens"], 5);
  EXPECT_NEAR(json["duration"].get<double>(), 0.008, 1e-9);
  EXPECT_NEAR(json["mean_ttft_ms"].get<double>(), 5.5, 1e-9);
  EXPECT_NEAR(json["mean_tpot_ms"].get<double>(), 1, 1e-6);
  EXPECT_NEAR(json["mean_e2el_ms"].get<double>(), 7, 1e-9);
  EXPECT_EQ(json["uncounted"], 0);  // the engine counts what it makes
  EXPECT_FALSE(json.contains("client"));
}

// As `latency` sends them.
TEST(EngineLoadTest, BatchesFollowEachOther) {
  std::vector<RequestRecord> records(2);
  for (RequestRecord& record : records) {
    record.outcome = Outcome::kCompleted;
    SetTokens(0.05, {50}, &record);
  }
  LoadResult load;
  for (const double seconds : {0.0, 0.1, 0.2}) AddToLoad(records, seconds, &load);
  const auto json =
      EngineReportJson(MakeServeReport(load, EngineReportOptions()), load, EngineReportOptions());
  EXPECT_EQ(json["completed"], 6);
  EXPECT_EQ(json["max_concurrent_requests"], 2);
  EXPECT_NEAR(json["duration"].get<double>(), 0.3, 1e-9);
  EXPECT_NEAR(json["output_throughput"].get<double>(), 12 / 0.3, 1e-6);
  EXPECT_NEAR(json["mean_ttft_ms"].get<double>(), 50, 1e-6);
  const auto detailed = DetailedJson(load.records);
  EXPECT_NEAR(detailed["start_times"][4].get<double>(), 0.2, 1e-9);
  EXPECT_NEAR(detailed["ttfts"][4].get<double>(), 0.05, 1e-9);
  EXPECT_NEAR(detailed["latencies"][4].get<double>(), 0.1, 1e-9);
}

TEST(MemoryFitTest, LeavesOutWhatDoesNotFitBesideTheRest) {
  const std::vector<int64_t> bytes = {10, 50, 30, 200, 20};
  const auto sum = [&](const std::vector<size_t>& indices) {
    int64_t total = 5;  // what all need
    for (const size_t i : indices) total += bytes[i];
    return total;
  };
  const FittingCases fitting = ChooseFitting(bytes.size(), 70, sum);
  EXPECT_THAT(fitting.chosen, ElementsAre(0, 1));
  ASSERT_EQ(fitting.skipped.size(), 3u);
  EXPECT_EQ(fitting.skipped[1].index, 3u);
  EXPECT_EQ(fitting.skipped[1].needed_bytes, 265);
  EXPECT_THAT(ChooseFitting(bytes.size(), 315, sum).skipped, IsEmpty());
  EXPECT_THAT(ChooseFitting(bytes.size(), 4, sum).chosen, IsEmpty());
  EXPECT_EQ(SkippedText("decode, batch 256", int64_t{3} << 30, int64_t{3} << 29),
            "skipped: decode, batch 256 needs 3.0 GiB, 1.5 GiB are free");
}

class ResultFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = ::testing::TempDir() + "quire_result_XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string Read(const fs::path& path) {
    std::ifstream file(path);
    return std::string((std::istreambuf_iterator<char>(file)), {});
  }
  size_t NumFiles() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }
  static absl::Status OpenStatus(const std::string& path) {
    return ResultFile::Open("--json", path).status();
  }

  fs::path folder_;
};

TEST_F(ResultFileTest, TheOldFileStaysUntilTheNewOneIsWhole) {
  const fs::path path = folder_ / "a.json";
  std::ofstream(path) << "old";
  {
    auto file = ResultFile::Open("--json", path).value();
    EXPECT_EQ(Read(path), "old");
  }
  EXPECT_EQ(Read(path), "old");  // nothing was measured
  EXPECT_EQ(NumFiles(), 1u);
  auto file = ResultFile::Open("--json", path).value();
  EXPECT_TRUE(file->Write("new").ok());
  EXPECT_EQ(Read(path), "new");
  EXPECT_EQ(NumFiles(), 1u);
}

TEST_F(ResultFileTest, TextsThatAreNoUtf8AreReplaced) {
  const fs::path path = folder_ / "a.json";
  EXPECT_TRUE(WriteJson({{"text", "a\xff"}}, ResultFile::Open("--json", path).value().get()).ok());
  EXPECT_EQ(Read(path), "{\n  \"text\": \"a\uFFFD\"\n}\n");
}

TEST_F(ResultFileTest, KeepsModeAndLink) {
  const fs::path path = folder_ / "a.json", link = folder_ / "link.json";
  std::ofstream(path) << "old";
  fs::permissions(path, fs::perms(0640));
  fs::create_symlink(path, link);
  EXPECT_TRUE(ResultFile::Open("--json", link).value()->Write("new").ok());
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(Read(path), "new");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0640));
}

TEST_F(ResultFileTest, WhatCannotBeWrittenIsRefusedAtOnce) {
  for (const std::string& bad :
       {std::string(), folder_.string(), (folder_ / "no/such.json").string(),
        std::string("/proc/x.json")}) {
    const absl::Status status = OpenStatus(bad);
    EXPECT_EQ(ExitCodeOf(status), kUsage) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--json: ")) << bad;
  }
  EXPECT_EQ(OpenResultFile("--json", std::nullopt).value(), nullptr);
}

TEST_F(ResultFileTest, ADeviceIsWrittenDirectlyAndAFullOneIsSaid) {
  EXPECT_TRUE(ResultFile::Open("--json", "/dev/null").value()->Write("x").ok());
  struct stat info = {};
  ASSERT_EQ(stat("/dev/null", &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode));
  const absl::Status full = ResultFile::Open("--json", "/dev/full").value()->Write("x");
  EXPECT_EQ(ExitCodeOf(full), kUnavailable);
  EXPECT_THAT(std::string(full.message()), HasSubstr("No space left"));
}

TEST(FailureTest, TheExitCodeTravelsInTheStatus) {
  EXPECT_EQ(ExitCodeOf(UsageError("x")), 64);
  EXPECT_EQ(ExitCodeOf(WithExitCode(66, absl::NotFoundError("x"))), 66);
  EXPECT_EQ(ExitCodeOf(absl::InternalError("x")), kEngineFailure);
}

}  // namespace
}  // namespace quire::bench

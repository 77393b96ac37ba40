#include "engine/runner/staging_area.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/engine/graph_backend.h"

namespace quire {
namespace {

constexpr int64_t kSizeBytes = 4096;

class StagingAreaTest : public ::testing::Test {
 protected:
  StagingAreaTest()
      : backend_(counts_),
        stream_(*backend_.device().CreateStream()),
        device_area_(*backend_.device().Allocate(kSizeBytes)) {
    EXPECT_TRUE(area_.Allocate(backend_.device(), kSizeBytes).ok());
  }

  // Sends `size` numbers from `first` on, and fetches what lies there before the next piece does.
  void Send(int32_t first, int64_t size) {
    std::vector<int32_t> values(size);
    std::iota(values.begin(), values.end(), first);
    const int32_t* const sent =
        area_.Send(*stream_, absl::Span<const int32_t>(values), device_area_);
    fetched_.emplace_back(size);
    stream_->CopyToHost(fetched_.back().data(), sent, size * int64_t{sizeof(int32_t)});
    sent_.push_back(std::move(values));
  }
  void ExpectArrived() {
    ASSERT_TRUE(stream_->Synchronize().ok());
    EXPECT_EQ(fetched_, sent_);
  }

  const std::shared_ptr<testing::StreamCounts> counts_ = std::make_shared<testing::StreamCounts>();
  testing::GraphBackend backend_;
  const std::unique_ptr<Stream> stream_;
  const DeviceBuffer device_area_;
  StagingArea area_;
  std::vector<std::vector<int32_t>> sent_, fetched_;
};

TEST_F(StagingAreaTest, PiecesThatFitWaitForNothing) {
  for (int i = 0; i < 10; ++i) Send(i * 1000, 90);
  EXPECT_EQ(counts_->num_waits, 0);
  ExpectArrived();
}

TEST_F(StagingAreaTest, AFullAreaIsUsedAgainAfterAWait) {
  Send(0, 1024);
  Send(5000, 700);
  EXPECT_EQ(counts_->num_waits, 1);
  Send(9000, 300);
  EXPECT_EQ(counts_->num_waits, 1);
  Send(12000, 200);
  EXPECT_EQ(counts_->num_waits, 2);
  ExpectArrived();
}

TEST_F(StagingAreaTest, AfterAStepItIsEmpty) {
  Send(0, 1024);
  ExpectArrived();
  area_.Reset();
  Send(5000, 1024);
  EXPECT_EQ(counts_->num_waits, 1);  // the test's own
  ExpectArrived();
}

TEST_F(StagingAreaTest, TooMuchForAllOfItIsAMistake) { EXPECT_DEATH(Send(0, 1025), "size_bytes"); }

}  // namespace
}  // namespace quire

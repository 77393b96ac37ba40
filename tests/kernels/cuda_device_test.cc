// The CUDA device through the doors: memory, events, captured graphs, and errors that stay. Skipped
// where there is no GPU.
#include <cstdlib>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"

namespace quire {
namespace {

using testing::HasSubstr;

class CudaDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!CudaAvailable()) GTEST_SKIP() << "no CUDA device here, or a build without CUDA";
    backend_ = OpenBackend({.kind = DeviceKind::kCuda}).value();
    stream_ = device().CreateStream().value();
  }

  Device& device() { return backend_->device(); }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(CudaDeviceTest, SaysWhatItIs) {
  const DeviceInfo& info = device().info();
  EXPECT_EQ(info.kind, DeviceKind::kCuda);
  EXPECT_FALSE(info.name.empty());
  EXPECT_GE(info.sm_version, 80);
  EXPECT_GT(info.num_sms, 0);
  EXPECT_TRUE(info.use_graphs);
  EXPECT_EQ(info.activation_dtypes, (std::vector{DType::kF32, DType::kBF16, DType::kF16}));
}

TEST_F(CudaDeviceTest, AllocatesAlignedMemoryAndCountsIt) {
  const int64_t free_bytes = device().Memory()->free_bytes;
  auto buffer = device().Allocate(int64_t{1} << 30);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 256, 0u);
  EXPECT_LE(device().Memory()->free_bytes, free_bytes - (int64_t{1} << 30));
  EXPECT_TRUE(device().Allocate(0).ok());
}

TEST_F(CudaDeviceTest, RefusesMoreThanThereIsAndGoesOn) {
  const int64_t size_bytes = device().Memory()->total_bytes + 1;
  EXPECT_EQ(device().Allocate(size_bytes).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(device().Allocate(size_bytes).status().message()),
              HasSubstr(std::to_string(size_bytes)));
  EXPECT_TRUE(stream_->Synchronize().ok());
}

// The KV cache's addresses are captured before they have memory.
TEST_F(CudaDeviceTest, AddressesGetMemoryLaterWhereItIsAskedFor) {
  const int64_t piece = device().info().map_granularity_bytes;
  ASSERT_GE(piece, 4096);
  const int64_t free_bytes = device().Memory()->free_bytes;
  const auto range = device().ReserveAddresses(64 * piece);
  ASSERT_TRUE(range.ok()) << range.status();
  EXPECT_GE(device().Memory()->free_bytes, free_bytes - 16 * piece);
  char* const data = static_cast<char*>((*range)->data());
  ASSERT_TRUE((*range)->Map(0, piece).ok());
  ASSERT_TRUE((*range)->Map(32 * piece, 32 * piece).ok());
  EXPECT_LE(device().Memory()->free_bytes, free_bytes - 33 * piece);
  const DeviceBuffer out = device().AllocatePinned(8).value();
  stream_->FillZero(data, piece);
  stream_->FillZero(data + 32 * piece, 32 * piece);
  out.as<int>()[0] = 42;
  stream_->CopyToDevice(data + 64 * piece - 4, out.data(), 4);
  stream_->CopyToHost(out.as<int>() + 1, data + 64 * piece - 4, 4);
  EXPECT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(out.as<int>()[1], 42);
  const auto huge = device().ReserveAddresses(int64_t{1} << 40);
  ASSERT_TRUE(huge.ok());
  EXPECT_EQ((*huge)->Map(0, int64_t{1} << 40).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(CudaDeviceTest, CopiesAndFills) {
  const DeviceBuffer memory = device().Allocate(12).value();
  const DeviceBuffer in = device().AllocatePinned(12).value();
  const DeviceBuffer out = device().AllocatePinned(12).value();
  EXPECT_EQ(in.as<int>()[2], 0);  // pinned memory is zero
  for (int i = 0; i < 3; ++i) in.as<int>()[i] = i + 1;
  const auto event = device().CreateEvent().value();
  EXPECT_TRUE(event->Done());  // before any Record
  EXPECT_TRUE(event->Wait().ok());
  stream_->CopyToDevice(memory.data(), in.data(), 12);
  stream_->FillZero(memory.as<int>() + 1, 4);
  stream_->CopyToHost(out.data(), memory.data(), 12);
  stream_->Record(*event);
  ASSERT_TRUE(event->Wait().ok());
  EXPECT_TRUE(event->Done());
  EXPECT_EQ(std::vector<int>(out.as<int>(), out.as<int>() + 3), (std::vector<int>{1, 0, 3}));
}

TEST_F(CudaDeviceTest, ACapturedGraphRunsWhenLaunched) {
  const DeviceBuffer memory = device().Allocate(4).value();
  const DeviceBuffer in = device().AllocatePinned(4).value();
  const DeviceBuffer out = device().AllocatePinned(4).value();
  stream_->BeginCapture();
  stream_->CopyToDevice(memory.data(), in.data(), 4);
  stream_->CopyToHost(out.data(), memory.data(), 4);
  const auto graph = stream_->EndCapture();
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (int value : {7, 8}) {
    *in.as<int>() = value;
    ASSERT_TRUE(stream_->Synchronize().ok());
    EXPECT_NE(*out.as<int>(), value);
    stream_->Launch(**graph);
    ASSERT_TRUE(stream_->Synchronize().ok());
    EXPECT_EQ(*out.as<int>(), value);
  }
}

TEST_F(CudaDeviceTest, TimedEventsTellHowLongTheStreamTook) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  const DeviceBuffer memory = device().Allocate(kBytes).value();
  const auto begin = device().CreateEvent(/*timed=*/true).value();
  const auto end = device().CreateEvent(/*timed=*/true).value();
  stream_->Record(*begin);
  stream_->FillZero(memory.data(), kBytes);
  stream_->Record(*end);
  ASSERT_TRUE(end->Wait().ok());
  EXPECT_GT(end->MicrosecondsSince(*begin), 0);
}

TEST_F(CudaDeviceTest, ThereIsNoHundredthDevice) {
  const auto backend = OpenBackend({.kind = DeviceKind::kCuda, .device_index = 99});
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(backend.status().message()), HasSubstr("no CUDA device 99"));
}

// A token outside the vocabulary stops the device. In a process of its own, because nothing works
// after it. Exits with 0 when every later call reports that first error.
void RunIntoAnError() {
  const auto backend = OpenBackend({.kind = DeviceKind::kCuda}).value();
  const auto stream = backend->device().CreateStream().value();
  const auto event = backend->device().CreateEvent().value();
  const DeviceBuffer memory = backend->device().Allocate(4096).value();
  const DeviceBuffer id = backend->device().AllocatePinned(4).value();
  *id.as<int32_t>() = 1000;
  stream->CopyToDevice(memory.data(), id.data(), 4);
  const LinearWeight table = {
      .data = memory.as<char>() + 256, .dtype = DType::kF32, .out_features = 8, .in_features = 8};
  backend->ops().Embedding(*stream, {.input_ids = memory.as<int32_t>(),
                                     .row_last_token = nullptr,
                                     .table = &table,
                                     .out = Tensor(memory.as<char>() + 1024, DType::kF32, {1, 8})});
  stream->Record(*event);
  const absl::Status first = event->Wait();
  const bool named = first.code() == absl::StatusCode::kInternal &&
                     first.message().find("cudaError") != absl::string_view::npos;
  const bool stays = stream->Synchronize() == first && event->Wait() == first && event->Done();
  std::exit(named && stays ? 0 : 1);
}

TEST_F(CudaDeviceTest, TheFirstErrorStays) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(RunIntoAnError(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace quire

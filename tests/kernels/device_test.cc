// The CPU device: memory, what it reports, and how a backend is opened.
#include "kernels/device.h"

#include <algorithm>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "hwy/highway.h"
#include "kernels/backend.h"
#include "kernels/cpu/runtime/cpu_device.h"
#include "kernels/cpu/runtime/host_info.h"
#include "kernels/cpu/runtime/isa.h"
#include "kernels/host_limits.h"

namespace quire {
namespace {

using testing::AllOf;
using testing::HasSubstr;

bool IsZero(const DeviceBuffer& buffer) {
  for (int64_t i = 0; i < buffer.size_bytes(); ++i) {
    if (buffer.as<char>()[i] != 0) return false;
  }
  return true;
}

TEST(CpuDeviceTest, AllocatesAlignedMemory) {
  cpu::CpuDevice device(1, cpu::Isa::kGeneric);
  for (int64_t size_bytes : {0, 1, 4096, 5000, 2 << 20, (4 << 20) + 1}) {
    auto buffer = device.Allocate(size_bytes);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    EXPECT_NE(buffer->data(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 256, 0u);
    EXPECT_EQ(buffer->size_bytes(), size_bytes);
    if (size_bytes > 0) buffer->as<char>()[size_bytes - 1] = 1;
  }
}

TEST(CpuDeviceTest, PinnedMemoryIsZero) {
  cpu::CpuDevice device(1, cpu::Isa::kGeneric);
  for (int i = 0; i < 2; ++i) {  // the second time it may get the first one's pages
    auto buffer = device.AllocatePinned(3 << 20);
    ASSERT_TRUE(buffer.ok());
    EXPECT_TRUE(IsZero(*buffer));
    buffer->as<char>()[12345] = 1;
  }
}

TEST(CpuDeviceTest, RefusesMoreThanThereIs) {
  cpu::CpuDevice device(1, cpu::Isa::kGeneric);
  for (int64_t size_bytes :
       {device.Memory()->total_bytes + 1, std::numeric_limits<int64_t>::max()}) {
    auto buffer = device.Allocate(size_bytes);
    EXPECT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(buffer.status().message()), HasSubstr(std::to_string(size_bytes)));
  }
}

// Untouched pages use no memory yet, but they are promised. Other processes use memory too: what
// is free may change by a fifth meanwhile.
TEST(CpuDeviceTest, AllocatedMemoryIsNoLongerFree) {
  cpu::CpuDevice device(1, cpu::Isa::kGeneric);
  const int64_t free_bytes = device.Memory()->free_bytes;
  const int64_t size_bytes = free_bytes / 5 * 3;
  {
    auto buffer = device.Allocate(size_bytes);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    EXPECT_LE(device.Memory()->free_bytes, free_bytes / 5 * 3);
    EXPECT_FALSE(device.Allocate(size_bytes).ok());
  }
  EXPECT_TRUE(device.Allocate(size_bytes).ok());
}

TEST(CpuDeviceTest, AddressesGetMemoryLaterWhereItIsAskedFor) {
  cpu::CpuDevice device(1, cpu::Isa::kGeneric);
  const int64_t piece = device.info().map_granularity_bytes;
  const int64_t huge_bytes = device.Memory()->total_bytes / piece * 8 * piece;
  const int64_t free_bytes = device.Memory()->free_bytes;
  {
    const auto range = device.ReserveAddresses(huge_bytes);  // more than there is
    ASSERT_TRUE(range.ok()) << range.status();
    char* const data = static_cast<char*>((*range)->data());
    const int64_t middle = huge_bytes / 2 / piece * piece;
    ASSERT_TRUE((*range)->Map(middle, 2 * piece).ok());
    data[middle] = data[middle + 2 * piece - 1] = 1;
    EXPECT_DEATH(data[middle - 1] = 1, "");
    ASSERT_TRUE((*range)->Map(0, free_bytes / 5 * 3 / piece * piece).ok());
    EXPECT_LE(device.Memory()->free_bytes, free_bytes / 5 * 3);
    EXPECT_EQ((*range)->Map(middle + 2 * piece, middle - 2 * piece).code(),
              absl::StatusCode::kResourceExhausted);
  }
  EXPECT_TRUE(device.Allocate(free_bytes / 5 * 3).ok());  // it was given back
}

TEST(CpuDeviceTest, ShrinkingKeepsTheFrontAndFreesTheRest) {
  cpu::CpuDevice device(1, cpu::Isa::kGeneric);
  const int64_t size_bytes = device.Memory()->free_bytes / 5 * 3;
  auto buffer = device.Allocate(size_bytes);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  char* const data = buffer->as<char>();
  data[9999] = 7;
  EXPECT_FALSE(device.Allocate(size_bytes).ok());
  const DeviceBuffer front = device.Shrink(*std::move(buffer), 10000);
  EXPECT_EQ(front.data(), data);
  EXPECT_EQ(front.size_bytes(), 10000);
  EXPECT_EQ(data[9999], 7);
  EXPECT_TRUE(device.Allocate(size_bytes).ok());
}

TEST(CpuDeviceTest, NamesProcessorAndInstructionSet) {
  cpu::CpuDevice device(3, cpu::Isa::kAvx2);
  EXPECT_EQ(device.info().kind, DeviceKind::kCpu);
  EXPECT_EQ(device.info().num_threads, 3);
  EXPECT_THAT(device.info().name, HasSubstr(cpu::CpuModelName()));
  EXPECT_THAT(device.info().name, HasSubstr("(avx2)"));
}

TEST(BackendTest, OpensTheCpu) {
  auto backend = OpenBackend({.num_threads = 2});
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->device().info().num_threads, 2);
  EXPECT_THAT((*backend)->device().info().activation_dtypes,
              testing::UnorderedElementsAre(DType::kF32, DType::kBF16));
  EXPECT_NE((*backend)->attention(AttentionPath::kNative), nullptr);
  EXPECT_EQ((*backend)->attention(AttentionPath::kTrtllm), nullptr);
}

TEST(BackendTest, UsesTheProcessorsItMayByDefault) {
  auto backend = OpenBackend({});
  ASSERT_TRUE(backend.ok());
  EXPECT_EQ((*backend)->device().info().num_threads, NumUsableCpus());
}

TEST(BackendTest, RefusesAnImpossibleNumberOfThreads) {
  for (int num_threads : {-1, 1000000}) {
    auto backend = OpenBackend({.num_threads = num_threads});
    EXPECT_EQ(backend.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(backend.status().message()), HasSubstr("num_threads"));
  }
}

TEST(BackendTest, OpensWithTheInstructionSetAskedFor) {
  for (cpu::Isa isa : cpu::kAllIsas) {
    if (!cpu::IsaSupported(isa)) continue;
    auto backend = OpenBackend({.num_threads = 1, .cpu_isa = cpu::IsaName(isa)});
    ASSERT_TRUE(backend.ok()) << backend.status();
    EXPECT_THAT((*backend)->device().info().name, HasSubstr(cpu::IsaName(isa)));
    // No kernel of Highway's either may be for more.
    const bool has_avx2 = isa >= cpu::Isa::kAvx2, has_avx3 = isa >= cpu::Isa::kAvx512;
    EXPECT_EQ((hwy::SupportedTargets() & HWY_AVX2) != 0, has_avx2) << cpu::IsaName(isa);
    EXPECT_EQ((hwy::SupportedTargets() & HWY_AVX3) != 0, has_avx3) << cpu::IsaName(isa);
  }
}

TEST(BackendTest, RefusesAnInstructionSetThatIsNotThere) {
  auto backend = OpenBackend({.num_threads = 1, .cpu_isa = "avx9"});
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(backend.status().message()),
              AllOf(HasSubstr("avx9"), HasSubstr("generic")));
}

TEST(BackendTest, SaysWhatToDoWithoutCuda) {
  if (CudaAvailable()) GTEST_SKIP() << "this machine has a CUDA device";
  auto backend = OpenBackend({.kind = DeviceKind::kCuda});
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(backend.status().message()), HasSubstr("--device cpu"));
}

}  // namespace
}  // namespace quire

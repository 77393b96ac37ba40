// The probes read and copy all of what they are given, at once and replayed.
#include "kernels/memory_probe.h"

#include <algorithm>

#include "tests/kernels/kernel_test.h"

namespace quire {
namespace {

class MemoryProbeTest : public KernelTest {};

TEST_P(MemoryProbeTest, ReadsWhatItIsGiven) {
  std::vector<uint32_t> words(1 << 20, 0);
  words.front() = 0x12340000u;
  words.back() = 0x00005678u;
  const DeviceBuffer data = Upload(words);
  const DeviceBuffer sink = Upload(std::vector<uint32_t>{0});
  stream().BeginCapture();
  EnqueueRead(backend(), stream(), data.data(), data.size_bytes(), sink.as<uint32_t>());
  const auto graph = stream().EndCapture().value();
  stream().Launch(*graph);
  Synchronize();
  if (GetParam().kind == DeviceKind::kCpu) {  // which sums up everything, as threads are few
    EXPECT_EQ(Download<uint32_t>(sink.data(), 1)[0], 0x12345678u);
  }
}

TEST_P(MemoryProbeTest, CopiesWhatItIsGivenAndNoMore) {
  for (const int64_t count : {16, 1 << 20, (1 << 20) + 16}) {
    std::vector<uint32_t> words(count + 16);
    for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<uint32_t>(i) * 2654435761u + 1;
    const DeviceBuffer from = Upload(words);
    const DeviceBuffer to = Upload(std::vector<uint32_t>(words.size(), 0));
    stream().BeginCapture();
    EnqueueCopy(backend(), stream(), to.data(), from.data(), count * 4);
    const auto graph = stream().EndCapture().value();
    stream().Launch(*graph);
    Synchronize();
    std::fill(words.end() - 16, words.end(), 0);
    EXPECT_EQ(Download<uint32_t>(to.data(), count + 16), words);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, MemoryProbeTest, testing::ValuesIn(KernelTargets()), TargetName);

}  // namespace
}  // namespace quire

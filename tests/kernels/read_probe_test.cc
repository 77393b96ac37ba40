// The probe reads all of what it is given, at once and replayed.
#include "kernels/read_probe.h"

#include "tests/kernels/kernel_test.h"

namespace quire {
namespace {

class ReadProbeTest : public KernelTest {};

TEST_P(ReadProbeTest, ReadsWhatItIsGiven) {
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

INSTANTIATE_TEST_SUITE_P(Backends, ReadProbeTest, testing::ValuesIn(KernelTargets()), TargetName);

}  // namespace
}  // namespace quire

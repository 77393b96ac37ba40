#include "kernels/cpu/runtime/cpu_device.h"

#include <sys/mman.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "kernels/base/types.h"
#include "kernels/cpu/runtime/activation_dtypes.h"
#include "kernels/cpu/runtime/cpu_stream.h"
#include "kernels/cpu/runtime/host_info.h"
#include "kernels/host_limits.h"

namespace quire::cpu {

namespace {

constexpr int64_t kPageBytes = 4096;
constexpr int64_t kHugePageBytes = int64_t{2} << 20;

// Whole pages, one at least.
int64_t MappedBytes(int64_t size_bytes) {
  return RoundUp(std::max<int64_t>(size_bytes, 1), kPageBytes);
}

// The offset of the first huge page that begins in the block.
int64_t HugePageOffset(const char* block) {
  return -static_cast<int64_t>(reinterpret_cast<uintptr_t>(block)) & (kHugePageBytes - 1);
}

// Anonymous memory with `protection` (PROT_*); null when the kernel refuses. Pages are zero and
// come when first touched. From one huge page upwards the block starts on a huge page, because
// streaming weights through 4 KiB pages costs TLB misses.
void* MapPages(int64_t size_bytes, int protection) {
  const int64_t slack_bytes = size_bytes >= kHugePageBytes ? kHugePageBytes - kPageBytes : 0;
  void* const mapped = mmap(nullptr, static_cast<size_t>(size_bytes + slack_bytes), protection,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  if (slack_bytes == 0) return mapped;
  char* const begin = static_cast<char*>(mapped);
  const int64_t skip_bytes = HugePageOffset(begin);
  if (skip_bytes > 0) munmap(begin, static_cast<size_t>(skip_bytes));
  if (slack_bytes > skip_bytes) {
    munmap(begin + skip_bytes + size_bytes, static_cast<size_t>(slack_bytes - skip_bytes));
  }
  return begin + skip_bytes;
}

// Asks for huge pages; only a wish.
void PreferHugePages(void* data, int64_t size_bytes) {
  if (size_bytes >= kHugePageBytes) madvise(data, static_cast<size_t>(size_bytes), MADV_HUGEPAGE);
}

absl::Status OutOfMemory(int64_t size_bytes, const MemoryInfo& memory) {
  return absl::ResourceExhaustedError(absl::StrCat("cannot allocate ", size_bytes,
                                                   " bytes of host memory (", memory.free_bytes,
                                                   " bytes are free)"));
}

}  // namespace

CpuDevice::CpuDevice(int num_threads, Isa isa)
    : info_{.kind = DeviceKind::kCpu,
            .name = absl::StrCat(CpuModelName(), " (", IsaName(isa), ")"),
            .activation_dtypes = {std::begin(kActivationDTypes), std::end(kActivationDTypes)},
            .num_threads = num_threads,
            .map_granularity_bytes = kPageBytes},
      pool_(num_threads),
      free_bytes_at_open_(ReadMemoryInfo().free_bytes),
      allocated_bytes_(std::make_shared<std::atomic<int64_t>>(0)) {}

// Allocated pages that nobody has touched yet still look free to the system, so what was free at
// the start less what was allocated since is a second bound.
absl::StatusOr<MemoryInfo> CpuDevice::Memory() const {
  MemoryInfo info = ReadMemoryInfo();
  const int64_t unpromised_bytes = free_bytes_at_open_ - allocated_bytes_->load();
  info.free_bytes = std::max<int64_t>(0, std::min(info.free_bytes, unpromised_bytes));
  return info;
}

absl::StatusOr<DeviceBuffer> CpuDevice::Allocate(int64_t size_bytes) {
  CHECK_GE(size_bytes, 0);
  ASSIGN_OR_RETURN(const MemoryInfo memory, Memory());
  if (size_bytes > memory.free_bytes) return OutOfMemory(size_bytes, memory);
  const int64_t mapped_bytes = MappedBytes(size_bytes);
  void* const data = MapPages(mapped_bytes, PROT_READ | PROT_WRITE);
  if (data == nullptr) return OutOfMemory(size_bytes, memory);
  PreferHugePages(data, mapped_bytes);
  allocated_bytes_->fetch_add(mapped_bytes);
  return Own(data, size_bytes);
}

DeviceBuffer CpuDevice::Own(void* data, int64_t size_bytes) const {
  return DeviceBuffer(data, size_bytes, [size_bytes, allocated = allocated_bytes_](void* block) {
    munmap(block, static_cast<size_t>(MappedBytes(size_bytes)));
    allocated->fetch_sub(MappedBytes(size_bytes));
  });
}

DeviceBuffer CpuDevice::Shrink(DeviceBuffer buffer, int64_t size_bytes) {
  CHECK_LE(size_bytes, buffer.size_bytes());
  const int64_t old_bytes = MappedBytes(buffer.size_bytes());
  const int64_t new_bytes = MappedBytes(size_bytes);
  char* const data = static_cast<char*>(buffer.Release());
  if (new_bytes < old_bytes) munmap(data + new_bytes, static_cast<size_t>(old_bytes - new_bytes));
  allocated_bytes_->fetch_sub(old_bytes - new_bytes);
  return Own(data, size_bytes);
}

class CpuDevice::Range : public AddressRange {
 public:
  Range(const CpuDevice& device, void* data, int64_t size_bytes)
      : device_(device),
        allocated_bytes_(device.allocated_bytes_),
        data_(static_cast<char*>(data)),
        size_bytes_(size_bytes) {}
  ~Range() override {
    munmap(data_, static_cast<size_t>(size_bytes_));
    allocated_bytes_->fetch_sub(mapped_bytes_);
  }

  void* data() const override { return data_; }

  absl::Status Map(int64_t offset_bytes, int64_t size_bytes) override {
    CHECK_EQ(offset_bytes % kPageBytes, 0);
    CHECK_EQ(size_bytes % kPageBytes, 0);
    CHECK(offset_bytes >= 0 && offset_bytes + size_bytes <= size_bytes_);
    ASSIGN_OR_RETURN(const MemoryInfo memory, device_.Memory());
    char* const begin = data_ + offset_bytes;
    if (size_bytes > memory.free_bytes ||
        mprotect(begin, static_cast<size_t>(size_bytes), PROT_READ | PROT_WRITE) != 0) {
      return OutOfMemory(size_bytes, memory);
    }
    PreferHugePages(begin, size_bytes);
    mapped_bytes_ += size_bytes;
    allocated_bytes_->fetch_add(size_bytes);
    return absl::OkStatus();
  }

 private:
  const CpuDevice& device_;
  const std::shared_ptr<std::atomic<int64_t>> allocated_bytes_;
  char* const data_;
  const int64_t size_bytes_;
  int64_t mapped_bytes_ = 0;
};

absl::StatusOr<std::unique_ptr<AddressRange>> CpuDevice::ReserveAddresses(int64_t size_bytes) {
  CHECK_GE(size_bytes, 0);
  const int64_t reserved_bytes = MappedBytes(size_bytes);
  // Only addresses: pages come where Map lifts the protection.
  void* const data = MapPages(reserved_bytes, PROT_NONE);
  if (data == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot reserve ", size_bytes,
                     " bytes of addresses; raise the limit that ulimit -v shows"));
  }
  return std::make_unique<Range>(*this, data, reserved_bytes);
}

// All host memory is alike here, and fresh pages are zero.
absl::StatusOr<DeviceBuffer> CpuDevice::AllocatePinned(int64_t size_bytes) {
  return Allocate(size_bytes);
}

absl::StatusOr<std::unique_ptr<Stream>> CpuDevice::CreateStream() {
  return std::make_unique<CpuStream>();
}

absl::StatusOr<std::unique_ptr<Event>> CpuDevice::CreateEvent(bool timed) {
  return std::make_unique<CpuEvent>(timed);
}

}  // namespace quire::cpu

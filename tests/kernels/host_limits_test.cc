// The limits that containers and services set for a process, from folders that look like theirs.
#include "kernels/host_limits.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace quire {
namespace {

class HostLimitsTest : public testing::Test {
 protected:
  HostLimitsTest() : root_(testing::TempDir() + "quire_host_limits") {
    std::filesystem::remove_all(root_);
    Write("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 700 kB\n");
  }
  ~HostLimitsTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = std::filesystem::path(root_) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void ExpectMemory(int64_t free_bytes, int64_t total_bytes) {
    const MemoryInfo info = ReadMemoryInfo(paths());
    EXPECT_EQ(info.free_bytes, free_bytes);
    EXPECT_EQ(info.total_bytes, total_bytes);
  }
  HostPaths paths() const { return {.proc = root_ + "/proc", .cgroup = root_ + "/cgroup"}; }

  const std::string root_;
};

TEST_F(HostLimitsTest, WithoutACgroupTheMachineCounts) { ExpectMemory(700 * 1024, 1000 * 1024); }

TEST_F(HostLimitsTest, WithoutProcTheKernelIsAsked) {
  const MemoryInfo info = ReadMemoryInfo({.proc = root_ + "/none", .cgroup = root_ + "/none"});
  EXPECT_GT(info.free_bytes, 0);
  EXPECT_GT(info.total_bytes, info.free_bytes);
  const int64_t known = ReadMemoryInfo({.cgroup = root_ + "/none"}).total_bytes;
  EXPECT_NEAR(info.total_bytes, known, known / 100);
  EXPECT_GE(NumUsableCpus({.proc = root_ + "/none", .cgroup = root_ + "/none"}), 1);
}

TEST_F(HostLimitsTest, CgroupV2LimitsAndItsCacheIsFree) {
  Write("cgroup/memory.max", "300000\n");
  Write("cgroup/memory.current", "250000\n");
  Write("cgroup/memory.stat", "anon 100\ninactive_file 50000\n");
  ExpectMemory(100000, 300000);
}

TEST_F(HostLimitsTest, CgroupV2WithoutALimit) {
  Write("cgroup/memory.max", "max\n");
  Write("cgroup/memory.current", "250000\n");
  ExpectMemory(700 * 1024, 1000 * 1024);
}

// A unit of systemd sees the whole hierarchy, where its own folder has the limit.
TEST_F(HostLimitsTest, TheCgroupThatTheProcessIsInCountsAndThoseAroundIt) {
  Write("proc/self/cgroup", "0::/system.slice/quire.service\n");
  Write("cgroup/system.slice/other.service/memory.max", "1\n");
  Write("cgroup/system.slice/other.service/memory.current", "1\n");
  Write("cgroup/system.slice/quire.service/memory.max", "400000\n");
  Write("cgroup/system.slice/quire.service/memory.current", "100000\n");
  ExpectMemory(300000, 400000);
  Write("cgroup/system.slice/memory.max", "500000\n");
  Write("cgroup/system.slice/memory.current", "450000\n");
  ExpectMemory(50000, 400000);
  const int num_cpus = NumUsableCpus(paths());
  Write("cgroup/system.slice/quire.service/cpu.max", "200000 100000\n");
  EXPECT_EQ(NumUsableCpus(paths()), std::min(2, num_cpus));
  Write("cgroup/system.slice/cpu.max", "100000 100000\n");
  EXPECT_EQ(NumUsableCpus(paths()), 1);
}

// Docker on version 1: the container's own folder lies where the root would, but is named as
// outside.
TEST_F(HostLimitsTest, CgroupV1Limits) {
  Write("cgroup/memory/memory.limit_in_bytes", "400000\n");
  Write("cgroup/memory/memory.usage_in_bytes", "100000\n");
  Write("cgroup/memory/memory.stat", "total_inactive_file 20000\n");
  ExpectMemory(320000, 400000);
  Write("proc/self/cgroup", "4:memory:/docker/0123\n3:cpu,cpuacct:/docker/0123\n0::/\n");
  ExpectMemory(320000, 400000);
  Write("cgroup/memory/docker/0123/memory.limit_in_bytes", "50000\n");
  Write("cgroup/memory/docker/0123/memory.usage_in_bytes", "10000\n");
  ExpectMemory(40000, 50000);
}

TEST_F(HostLimitsTest, CgroupV1WithoutALimit) {
  Write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("cgroup/memory/memory.usage_in_bytes", "100000\n");
  ExpectMemory(700 * 1024, 1000 * 1024);
}

TEST_F(HostLimitsTest, AnOvercommittedCgroupHasNothingFree) {
  Write("cgroup/memory.max", "300000\n");
  Write("cgroup/memory.current", "310000\n");
  ExpectMemory(0, 300000);
}

TEST_F(HostLimitsTest, WhatIsNoNumberOrNoPathIsNoLimit) {
  Write("proc/self/cgroup", "\n0:\n0::relative\n7:memory\n:::\n9:cpu:\n");
  Write("cgroup/memory.max", "a lot\n");
  Write("cgroup/memory.current", "310000\n");
  Write("cgroup/cpu.max", "-5 0\n");
  ExpectMemory(700 * 1024, 1000 * 1024);
  EXPECT_EQ(NumUsableCpus(paths()), NumUsableCpus({.cgroup = root_ + "/none"}));
}

TEST_F(HostLimitsTest, ProcessorQuotasRoundUpAndStopAtTheMask) {
  const int num_cpus = NumUsableCpus(paths());
  EXPECT_GE(num_cpus, 1);
  const auto with_quota = [&](const std::string& text) {
    Write("cgroup/cpu.max", text);
    return NumUsableCpus(paths());
  };
  EXPECT_EQ(with_quota("max 100000\n"), num_cpus);
  EXPECT_EQ(with_quota("50000 100000\n"), 1);
  EXPECT_EQ(with_quota("150000 100000\n"), std::min(2, num_cpus));
  EXPECT_EQ(with_quota("99900000 100000\n"), std::min(999, num_cpus));
}

TEST_F(HostLimitsTest, ProcessorQuotaOfCgroupV1) {
  const int num_cpus = NumUsableCpus(paths());
  Write("cgroup/cpu/cpu.cfs_period_us", "100000\n");
  Write("cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(NumUsableCpus(paths()), num_cpus);
  Write("cgroup/cpu/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(NumUsableCpus(paths()), 1);
}

}  // namespace
}  // namespace quire

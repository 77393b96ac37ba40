#include "kvcache/kv_arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <vector>

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Host memory up to a limit; everything else of a device is not needed here.
class FakeDevice : public Device {
 public:
  static constexpr int64_t kGranularityBytes = 256;  // a block of one layer of Layout()

  explicit FakeDevice(int64_t limit_bytes) : limit_bytes_(limit_bytes) {
    info_.map_granularity_bytes = kGranularityBytes;
  }

  const DeviceInfo& info() const override { return info_; }
  absl::StatusOr<MemoryInfo> Memory() const override { return absl::UnimplementedError(""); }
  absl::StatusOr<DeviceBuffer> Allocate(int64_t) override { return absl::UnimplementedError(""); }
  absl::StatusOr<std::unique_ptr<AddressRange>> ReserveAddresses(int64_t size_bytes) override {
    return std::make_unique<FakeRange>(size_bytes, &limit_bytes_);
  }
  absl::StatusOr<DeviceBuffer> AllocatePinned(int64_t) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent(bool) override {
    return absl::UnimplementedError("");
  }

 private:
  class FakeRange : public AddressRange {
   public:
    FakeRange(int64_t size_bytes, int64_t* limit_bytes)
        : memory_(size_bytes), limit_bytes_(limit_bytes) {}
    void* data() const override { return const_cast<char*>(memory_.data()); }
    absl::Status Map(int64_t offset_bytes, int64_t size_bytes) override {
      EXPECT_EQ(offset_bytes % kGranularityBytes, 0);
      EXPECT_EQ(size_bytes % kGranularityBytes, 0);
      EXPECT_LE(offset_bytes + size_bytes, static_cast<int64_t>(memory_.size()));
      if (size_bytes > *limit_bytes_) return absl::ResourceExhaustedError("device is full");
      *limit_bytes_ -= size_bytes;
      return absl::OkStatus();
    }

   private:
    std::vector<char> memory_;
    int64_t* limit_bytes_;
  };

  DeviceInfo info_;
  int64_t limit_bytes_;
};

KvLayout Layout(std::vector<KvLayerGroup> groups) {
  KvLayout layout;
  layout.groups = std::move(groups);
  layout.num_kv_heads = 2;
  layout.head_dim = 8;
  layout.block_size = 4;
  layout.dtype = DType::kBF16;
  return layout;
}

TEST(GroupLayersByWindowTest, OneKindMakesOneGroup) {
  const auto groups = GroupLayersByWindow({0, 0, 0});
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].sliding_window, 0);
  EXPECT_THAT(groups[0].layers, ElementsAre(0, 1, 2));
}

TEST(GroupLayersByWindowTest, AlternatingLayersMakeTwoEqualGroups) {
  const auto groups = GroupLayersByWindow({128, 0, 128, 0});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].sliding_window, 0);
  EXPECT_THAT(groups[0].layers, ElementsAre(1, 3));
  EXPECT_EQ(groups[1].sliding_window, 128);
  EXPECT_THAT(groups[1].layers, ElementsAre(0, 2));
}

TEST(GroupLayersByWindowTest, TheRareKindSetsTheSizeAndARemainderIsPadded) {
  const auto groups = GroupLayersByWindow({512, 512, 512, 512, 512, 0, 512, 512, 0});
  ASSERT_EQ(groups.size(), 5u);
  EXPECT_THAT(groups[0].layers, ElementsAre(5, 8));
  EXPECT_THAT(groups[1].layers, ElementsAre(0, 1));
  EXPECT_THAT(groups[3].layers, ElementsAre(4, 6));
  EXPECT_THAT(groups[4].layers, ElementsAre(7));
}

TEST(KvLayoutTest, CountsBytesOfKeysAndValuesInAllLayersOfAGroup) {
  const KvLayout layout = Layout({{0, {0, 2}}, {64, {1}}});
  EXPECT_EQ(layout.BlockBytesPerLayer(), 2 * 4 * 2 * 8 * 2);
  EXPECT_EQ(layout.BlockBytes(), 2 * layout.BlockBytesPerLayer());
  EXPECT_EQ(layout.NumBlocksIn(3 * layout.BlockBytes() + 1), 3);
}

TEST(KvArenaTest, LayersAtOneIndexOfTheirGroupsShareATensor) {
  FakeDevice device(1 << 20);
  const auto arena = KvArena::Allocate(device, Layout({{0, {0, 2}}, {64, {1, 3}}}), 5);
  ASSERT_TRUE(arena.ok()) << arena.status();
  EXPECT_EQ(arena->num_blocks(), 5);
  EXPECT_EQ(arena->LayerView(0).k, arena->LayerView(1).k);
  EXPECT_EQ(arena->LayerView(2).k, arena->LayerView(3).k);
  EXPECT_NE(arena->LayerView(0).k, arena->LayerView(2).k);
}

// Every element of every (tensor, K or V, slot, head, element) has its own place inside the memory.
TEST(KvArenaTest, PlacesAreDisjointAndFillTheArena) {
  constexpr int64_t kNumBlocks = 3;
  FakeDevice device(1 << 20);
  const auto arena = KvArena::Allocate(device, Layout({{0, {0, 1}}}), kNumBlocks);
  ASSERT_TRUE(arena.ok());
  const char* begin = static_cast<const char*>(arena->LayerView(0).k);
  std::set<int64_t> places;
  for (const int layer : {0, 1}) {
    const KvCacheView view = arena->LayerView(layer);
    for (const void* base : {view.k, view.v}) {
      for (int64_t slot = 0; slot < kNumBlocks * view.block_size; ++slot) {
        for (int head = 0; head < view.num_kv_heads; ++head) {
          for (int i = 0; i < view.head_dim; ++i) {
            const int64_t element = slot / view.block_size * view.block_stride +
                                    slot % view.block_size * view.token_stride +
                                    head * view.head_stride + i;
            const char* place = static_cast<const char*>(base) + element * DTypeBytes(view.dtype);
            EXPECT_TRUE(places.insert(place - begin).second);
          }
        }
      }
    }
  }
  EXPECT_EQ(static_cast<int64_t>(places.size()) * DTypeBytes(DType::kBF16), arena->size_bytes());
  EXPECT_EQ(*places.begin(), 0);
  EXPECT_EQ(*places.rbegin(), arena->size_bytes() - DTypeBytes(DType::kBF16));
}

TEST(KvArenaTest, AFullDeviceIsAnErrorThatSaysWhatToChange) {
  FakeDevice device(100);
  const auto arena = KvArena::Allocate(device, Layout({{0, {0}}}), 7);
  EXPECT_EQ(arena.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(arena.status().message(), HasSubstr("7 KV cache blocks"));
}

// What has been captured before the memory was there names addresses that stay.
TEST(KvArenaTest, MemoryComesLaterBehindTheSameAddresses) {
  constexpr int64_t kLimitBytes = 1 << 16;
  FakeDevice device(kLimitBytes);
  auto arena = KvArena::Reserve(device, Layout({{0, {0, 1}}}), 100);
  ASSERT_TRUE(arena.ok());
  EXPECT_EQ(arena->num_blocks(), 0);
  EXPECT_EQ(arena->size_bytes(), 0);
  const KvCacheView before = arena->LayerView(1);
  ASSERT_TRUE(arena->Map(3).ok());
  EXPECT_EQ(arena->num_blocks(), 3);
  EXPECT_EQ(arena->size_bytes(), 2 * 3 * FakeDevice::kGranularityBytes);
  EXPECT_EQ(arena->LayerView(1).k, before.k);
  EXPECT_EQ(static_cast<char*>(arena->LayerView(1).k) - static_cast<char*>(arena->LayerView(0).k),
            100 * FakeDevice::kGranularityBytes);
}

TEST(KvArenaDeathTest, AnUnknownLayerAborts) {
  FakeDevice device(1 << 20);
  const auto arena = KvArena::Allocate(device, Layout({{0, {0}}}), 1);
  ASSERT_TRUE(arena.ok());
  EXPECT_DEATH(arena->LayerView(1), "layer 1");
}

}  // namespace
}  // namespace quire

#include "kvcache/kv_arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Host memory up to a limit; everything else of a device is not needed here.
class FakeDevice : public Device {
 public:
  static constexpr int64_t kGranularityBytes = 256;  // a block of one plane of Layout()

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

KvSpec Spec(int64_t sliding_window) {
  return {.sliding_window = sliding_window,
          .num_kv_heads = 2,
          .k_head_dim = 8,
          .v_head_dim = 8,
          .dtype = DType::kBF16};
}

std::vector<KvSpec> Specs(const std::vector<int64_t>& windows) {
  std::vector<KvSpec> specs;
  for (const int64_t window : windows) specs.push_back(Spec(window));
  return specs;
}

int64_t DistanceBytes(const HeadsView& from, const HeadsView& to) {
  return static_cast<char*>(to.data) - static_cast<char*>(from.data);
}

// Layers by window: {{0, {0, 2}}, {64, {1}}}.
KvLayout Layout(const std::vector<std::pair<int64_t, std::vector<int>>>& groups) {
  KvLayout layout;
  for (const auto& [window, layers] : groups) layout.groups.push_back({Spec(window), layers});
  layout.block_size = 4;
  return layout;
}

TEST(GroupLayersTest, OneKindMakesOneGroup) {
  const auto groups = GroupLayers(Specs({0, 0, 0}));
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].spec, Spec(0));
  EXPECT_THAT(groups[0].layers, ElementsAre(0, 1, 2));
}

TEST(GroupLayersTest, AlternatingLayersMakeTwoEqualGroups) {
  const auto groups = GroupLayers(Specs({128, 0, 128, 0}));
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].spec, Spec(0));
  EXPECT_THAT(groups[0].layers, ElementsAre(1, 3));
  EXPECT_EQ(groups[1].spec, Spec(128));
  EXPECT_THAT(groups[1].layers, ElementsAre(0, 2));
}

TEST(GroupLayersTest, TheRareKindSetsTheSizeAndARemainderIsPadded) {
  const auto groups = GroupLayers(Specs({512, 512, 512, 512, 512, 0, 512, 512, 0}));
  ASSERT_EQ(groups.size(), 5u);
  EXPECT_THAT(groups[0].layers, ElementsAre(5, 8));
  EXPECT_THAT(groups[1].layers, ElementsAre(0, 1));
  EXPECT_THAT(groups[3].layers, ElementsAre(4, 6));
  EXPECT_THAT(groups[4].layers, ElementsAre(7));
}

TEST(GroupLayersTest, WhateverIsKeptDifferentlyIsAGroupOfItsOwn) {
  std::vector<KvSpec> specs(6, Spec(0));
  specs[1].num_kv_heads = 1;
  specs[2].k_head_dim = 16;
  specs[3].v_head_dim = 16;
  specs[4].dtype = DType::kF32;
  specs[5].sliding_window = 7;
  EXPECT_EQ(GroupLayers(specs).size(), 6u);
}

TEST(GroupLayersTest, LayersOfFewerBytesAreMoreToAGroup) {
  std::vector<KvSpec> specs(6, Spec(0));
  for (const int layer : {1, 2, 4, 5}) specs[layer].dtype = DType::kF8E4M3;
  const auto groups = GroupLayers(specs);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_THAT(groups[0].layers, ElementsAre(0, 3));
  EXPECT_THAT(groups[1].layers, ElementsAre(1, 2, 4, 5));
  const KvLayout layout = {.groups = groups, .block_size = 4};
  EXPECT_EQ(layout.NumPlanes(), 2);
  EXPECT_EQ(layout.BlockBytes(), 2 * 4 * Spec(0).BytesPerToken());
}

TEST(GroupLayersTest, ALayerThatKeepsNothingIsInNoGroup) {
  std::vector<KvSpec> specs = Specs({0, 0, 0});
  specs[1].num_kv_heads = 0;
  const auto groups = GroupLayers(specs);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_THAT(groups[0].layers, ElementsAre(0, 2));
  EXPECT_THAT((KvLayout{.groups = groups}.GroupOfLayers()), ElementsAre(0, -1, 0));
}

// One layer that differs from 31 must not make 32 groups.
TEST(GroupLayersTest, ARareKindIsPaddedRatherThanManyGroupsMade) {
  std::vector<int64_t> windows(32, 64);
  windows[7] = 0;
  const auto groups = GroupLayers(Specs(windows));
  EXPECT_EQ(groups.size(), 12u);
  EXPECT_THAT(groups[0].layers, ElementsAre(7));
  EXPECT_EQ(groups[1].layers.size(), 3u);
}

TEST(KvLayoutTest, CountsBytesOfKeysAndValuesInAllLayersOfAGroup) {
  const KvLayout layout = Layout({{0, {0, 2}}, {64, {1}}});
  EXPECT_EQ(layout.BlockBytesPerPlane(), 2 * 4 * 2 * 8 * 2);
  EXPECT_EQ(layout.BlockBytes(), 2 * layout.BlockBytesPerPlane());
  EXPECT_EQ(layout.NumBlocksIn(3 * layout.BlockBytes() + 1), 3);
  EXPECT_THAT(layout.GroupOfLayers(), ElementsAre(0, 1, 0));
}

TEST(KvLayoutTest, KeysAndValuesMayDifferInSize) {
  KvSpec spec = Spec(0);
  spec.k_head_dim = 24;
  EXPECT_EQ(spec.BytesPerToken(), 2 * (24 + 8) * 2);
}

TEST(KvLayoutTest, ALatentLayerHasOneVectorOfEachHead) {
  KvSpec spec = Spec(0);
  spec.kind = KvKind::kLatent;
  spec.k_head_dim = 24;
  EXPECT_EQ(spec.BytesPerToken(), 2 * 24 * 2);
  KvSpec paged = spec;
  paged.kind = KvKind::kPaged;
  const std::vector<KvSpec> specs = {spec, paged, spec};
  for (const KvLayerGroup& group : GroupLayers(specs)) {
    for (const int layer : group.layers) EXPECT_EQ(specs[layer], group.spec) << layer;
  }
}

TEST(KvLayoutDeathTest, ALatentValueIsPartOfTheKey) {
  KvSpec spec = Spec(0);
  spec.kind = KvKind::kLatent;
  spec.v_head_dim = spec.k_head_dim + 1;
  EXPECT_DEATH(GroupLayers({spec}), "v_head_dim");
}

TEST(KvLayoutDeathTest, ALayerHasOneGroup) {
  EXPECT_DEATH(Layout({{0, {0, 1}}, {64, {1}}}).GroupOfLayers(), "layer 1 is in two groups");
}

// A block has room for the larger of two kinds, and each finds its own in it.
TEST(KvArenaTest, GroupsOfDifferentSizesShareBlocks) {
  FakeDevice device(1 << 20);
  KvLayout layout = Layout({{0, {0}}, {64, {1}}});
  layout.groups[1].spec.num_kv_heads = 1;
  const auto arena = KvArena::Allocate(device, layout, 3);
  ASSERT_TRUE(arena.ok()) << arena.status();
  const KvCacheView large = arena->LayerView(0), small = arena->LayerView(1);
  EXPECT_EQ(small.k.block_stride, large.k.block_stride);
  EXPECT_EQ(small.k.data, large.k.data);
  EXPECT_EQ(small.num_kv_heads, 1);
  EXPECT_EQ(DistanceBytes(small.k, small.v), 1 * 4 * 8 * 2);
  EXPECT_EQ(DistanceBytes(large.k, large.v), 2 * 4 * 8 * 2);
}

TEST(KvArenaTest, ALatentValueIsTheBeginningOfTheKey) {
  FakeDevice device(1 << 20);
  KvLayout layout = Layout({{0, {0, 1}}});
  layout.groups[0].spec.kind = KvKind::kLatent;
  layout.groups[0].spec.k_head_dim = 24;
  const auto arena = KvArena::Allocate(device, layout, 3);
  ASSERT_TRUE(arena.ok()) << arena.status();
  const KvCacheView view = arena->LayerView(1);
  EXPECT_EQ(view.v.data, view.k.data);
  EXPECT_EQ(view.k.head_dim, 24);
  EXPECT_EQ(view.v.head_dim, 8);
  EXPECT_EQ(view.k.token_stride, 24);
  EXPECT_EQ(view.v.token_stride, 24);
  EXPECT_EQ(view.v.head_stride, 4 * 24);
  EXPECT_EQ(view.v.block_stride, 2 * 4 * 24) << "no room is left for values";
}

// Two layers of 8 bits stand where one of 16 does, one behind the other in each block.
TEST(KvArenaTest, SmallLayersShareAPlane) {
  FakeDevice device(1 << 20);
  KvLayout layout = Layout({{0, {0}}, {0, {1, 2}}});
  layout.groups[1].spec.dtype = DType::kF8E4M3;
  const auto arena = KvArena::Allocate(device, layout, 3);
  ASSERT_TRUE(arena.ok()) << arena.status();
  const KvCacheView wide = arena->LayerView(0);
  const KvCacheView first = arena->LayerView(1), second = arena->LayerView(2);
  EXPECT_EQ(first.k.data, wide.k.data);
  EXPECT_EQ(first.k.block_stride, 2 * wide.k.block_stride);  // in elements of half the size
  EXPECT_EQ(second.k.block_stride, first.k.block_stride);
  const int64_t layer_bytes = 4 * layout.groups[1].spec.BytesPerToken();
  EXPECT_EQ(DistanceBytes(first.k, second.k), layer_bytes);
  EXPECT_EQ(DistanceBytes(first.v, second.v), layer_bytes);
  EXPECT_EQ(arena->size_bytes(), 3 * layout.BlockBytesPerPlane());
}

TEST(KvArenaTest, LayersAtOneIndexOfTheirGroupsShareATensor) {
  FakeDevice device(1 << 20);
  const auto arena = KvArena::Allocate(device, Layout({{0, {0, 2}}, {64, {1, 3}}}), 5);
  ASSERT_TRUE(arena.ok()) << arena.status();
  EXPECT_EQ(arena->num_blocks(), 5);
  EXPECT_EQ(arena->LayerView(0).k.data, arena->LayerView(1).k.data);
  EXPECT_EQ(arena->LayerView(2).k.data, arena->LayerView(3).k.data);
  EXPECT_NE(arena->LayerView(0).k.data, arena->LayerView(2).k.data);
}

// Every element of every (tensor, K or V, slot, head, element) has its own place inside the memory,
// whether keys and values have the same size or not.
TEST(KvArenaTest, PlacesAreDisjointAndFillTheArena) {
  constexpr int64_t kNumBlocks = 4;  // in memory of whole granules
  for (const int32_t v_head_dim : {8, 16, 4}) {
    FakeDevice device(1 << 20);
    KvLayout layout = Layout({{0, {0, 1}}});
    layout.groups[0].spec.v_head_dim = v_head_dim;
    const auto arena = KvArena::Allocate(device, layout, kNumBlocks);
    ASSERT_TRUE(arena.ok());
    const char* begin = static_cast<const char*>(arena->LayerView(0).k.data);
    std::set<int64_t> places;
    for (const int layer : {0, 1}) {
      const KvCacheView view = arena->LayerView(layer);
      EXPECT_EQ(view.k.head_dim, 8);
      EXPECT_EQ(view.v.head_dim, v_head_dim);
      for (const HeadsView& heads : {view.k, view.v}) {
        for (int64_t slot = 0; slot < kNumBlocks * view.block_size; ++slot) {
          for (int head = 0; head < view.num_kv_heads; ++head) {
            for (int i = 0; i < heads.head_dim; ++i) {
              const int64_t element = slot / view.block_size * heads.block_stride +
                                      slot % view.block_size * heads.token_stride +
                                      head * heads.head_stride + i;
              const char* place =
                  static_cast<const char*>(heads.data) + element * DTypeBytes(view.dtype);
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
  EXPECT_EQ(arena->LayerView(1).k.data, before.k.data);
  EXPECT_EQ(DistanceBytes(arena->LayerView(0).k, arena->LayerView(1).k),
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

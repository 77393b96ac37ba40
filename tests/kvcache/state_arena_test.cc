#include "kvcache/state_arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "kernels/backend.h"

namespace quire {
namespace {

class StateArenaTest : public ::testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = *OpenBackend({.kind = DeviceKind::kCpu, .num_threads = 1});
};

// Every part of every slot of every layer is written whole; what lay in another would be lost.
TEST_F(StateArenaTest, NoTwoStatesShareAByte) {
  const StateLayout layout = {{1, {.conv_bytes = 100, .recurrent_bytes = 1000}},
                              {4, {.conv_bytes = 300, .recurrent_bytes = 512}}};
  EXPECT_EQ(BytesPerSlot(layout), (256 + 1024) + (512 + 512));
  constexpr int kNumSlots = 5;
  const StateArena arena = *StateArena::Allocate(backend_->device(), layout, kNumSlots);
  EXPECT_EQ(arena.num_slots(), kNumSlots);
  EXPECT_EQ(arena.size_bytes(), kNumSlots * BytesPerSlot(layout));
  const auto for_each_part = [&](auto visit) {
    unsigned char value = 0;
    for (const auto& [layer, spec] : layout) {
      const StateView& view = arena.LayerView(layer);
      for (int slot = 0; slot < kNumSlots; ++slot) {
        visit(static_cast<char*>(view.conv) + slot * view.conv_stride_bytes, spec.conv_bytes,
              ++value);
        visit(static_cast<char*>(view.recurrent) + slot * view.recurrent_stride_bytes,
              spec.recurrent_bytes, ++value);
      }
    }
  };
  for_each_part([](char* data, int64_t bytes, int value) { std::memset(data, value, bytes); });
  for_each_part([](const char* data, int64_t bytes, unsigned char value) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 16, 0);  // whole vectors
    for (int64_t i = 0; i < bytes; ++i) {
      ASSERT_EQ(static_cast<unsigned char>(data[i]), value);
    }
  });
}

TEST_F(StateArenaTest, AModelWithoutStatesTakesNothing) {
  const StateArena arena = *StateArena::Allocate(backend_->device(), {}, 64);
  EXPECT_EQ(arena.num_slots(), 0);
  EXPECT_EQ(arena.size_bytes(), 0);
  EXPECT_DEATH(arena.LayerView(0), "layer 0 keeps no state");
}

}  // namespace
}  // namespace quire

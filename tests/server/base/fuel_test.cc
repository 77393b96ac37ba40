#include "server/base/fuel.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(FuelTest, LastsAsLongAsItSays) {
  Fuel fuel(3);
  EXPECT_TRUE(fuel.Burn(1));
  EXPECT_TRUE(fuel.Burn(2));
  EXPECT_TRUE(fuel.ok());
  EXPECT_TRUE(fuel.status().ok());
  EXPECT_FALSE(fuel.Burn(1));
  EXPECT_FALSE(fuel.Burn(0)) << "spent is spent";
  EXPECT_EQ(fuel.status(), absl::InvalidArgumentError("needs more than 3 steps"));
}

TEST(FuelTest, LongRunsEndAtTheExactStep) {
  constexpr size_t kSteps = 1'000'000;
  Fuel fuel(kSteps);
  size_t steps = 0;
  while (fuel.Burn(1)) ++steps;
  EXPECT_EQ(steps, kSteps);
}

TEST(FuelTest, NoSumOverflows) {
  Fuel fuel(Fuel::kUnlimited);
  EXPECT_TRUE(fuel.Burn(SIZE_MAX));
  EXPECT_TRUE(fuel.Burn(SIZE_MAX));
  Fuel bounded(10);
  EXPECT_TRUE(bounded.Burn(10));
  EXPECT_FALSE(bounded.Burn(SIZE_MAX));
}

TEST(FuelTest, CancellingIsSeenWithinAThousandSteps) {
  std::atomic<bool> cancelled = false;
  Fuel fuel(Fuel::kUnlimited, &cancelled);
  for (int i = 0; i < 100'000; ++i) ASSERT_TRUE(fuel.Burn(1));
  cancelled = true;
  size_t steps = 0;
  while (fuel.Burn(1)) ++steps;
  EXPECT_LE(steps, 1024u);
  cancelled = false;
  EXPECT_FALSE(fuel.Burn(0));
  EXPECT_EQ(fuel.status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace quire

// The rig sees what it is there to see: each fault of the device side is found in most seeds (in
// the others its opportunity never comes). Bugs in the scheduler and the block manager are planted
// by mutants/run.py.
#include <gtest/gtest.h>

#include "tests/sim/simulation.h"

namespace quire::sim {
namespace {

class CanaryTest : public testing::TestWithParam<Fault> {};

TEST_P(CanaryTest, IsFound) {
  constexpr int kNumSeeds = 40;
  int num_found = 0;
  for (int seed = 1; seed <= kNumSeeds; ++seed) {
    Simulation simulation(
        {.seed = static_cast<uint64_t>(seed), .num_rounds = 300, .fault = GetParam()});
    if (simulation.Run().has_value()) ++num_found;
  }
  EXPECT_GE(num_found, kNumSeeds / 4);
}

INSTANTIATE_TEST_SUITE_P(Faults, CanaryTest,
                         testing::Values(Fault::kSkipWrite, Fault::kWrongSlot,
                                         Fault::kMissTableUpdate, Fault::kStaleLastToken,
                                         Fault::kWrongSample, Fault::kWrongInput));

}  // namespace
}  // namespace quire::sim

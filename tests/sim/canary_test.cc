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
  int num_run = 0;
  int num_found = 0;
  for (uint64_t seed = 1; num_run < kNumSeeds; ++seed) {
    Simulation simulation({.seed = seed, .num_rounds = 300, .fault = GetParam()});
    const bool is_of_masks = GetParam() == Fault::kLostMask;
    const bool is_of_states = GetParam() >= Fault::kStaleState && !is_of_masks;
    if (is_of_states && !simulation.keeps_states()) continue;
    if (is_of_masks && !simulation.has_constraints()) continue;
    ++num_run;
    if (simulation.Run().has_value()) ++num_found;
  }
  EXPECT_GE(num_found, kNumSeeds / 4);
}

INSTANTIATE_TEST_SUITE_P(Faults, CanaryTest,
                         testing::Values(Fault::kSkipWrite, Fault::kWrongSlot,
                                         Fault::kMissTableUpdate, Fault::kStaleLastToken,
                                         Fault::kWrongSample, Fault::kWrongInput,
                                         Fault::kStaleState, Fault::kWrongState,
                                         Fault::kLeakedState, Fault::kSnapshotLate,
                                         Fault::kLostSnapshot, Fault::kLostMask));

}  // namespace
}  // namespace quire::sim

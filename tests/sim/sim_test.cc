// Runs the simulator over many seeds. Flags, for longer runs and for replaying one seed:
//   sim_test --seed=S      first seed (a violation prints the flags that repeat it)
//   sim_test --seeds=N     how many seeds
//   sim_test --steps=N     steps with arrivals per seed
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "tests/sim/simulation.h"

namespace quire::sim {
namespace {

struct Flags {
  uint64_t seed = 1;
  int64_t num_seeds = 3500;
  int64_t num_steps = 400;
};
Flags g_flags;

// The seed in progress, for the report of a CHECK that aborts.
uint64_t g_current_seed = 0;

void ReportSeedAndDie(int) {
  std::fprintf(stderr, "while simulating; replay with --seed=%llu --seeds=1 --steps=%lld\n",
               static_cast<unsigned long long>(g_current_seed),
               static_cast<long long>(g_flags.num_steps));
  std::_Exit(134);
}

// Runs one seed; fails the test with its replay line on a violation.
Coverage RunSeed(const SimulationOptions& options) {
  g_current_seed = options.seed;
  Simulation simulation(options);
  const auto violation = simulation.Run();
  EXPECT_FALSE(violation.has_value())
      << *violation << "\nscenario: " << simulation.Describe()
      << "\nreplay: --seed=" << options.seed << " --seeds=1 --steps=" << options.num_steps;
  return simulation.coverage();
}

TEST(SimTest, NoViolationAndEverythingIsCovered) {
  Coverage coverage;
  for (int64_t i = 0; i < g_flags.num_seeds && !HasFailure(); ++i) {
    coverage.Add(RunSeed({.seed = g_flags.seed + i, .num_steps = g_flags.num_steps}));
  }
  std::printf("seeds %lld..%lld, %lld steps each:\n%s", static_cast<long long>(g_flags.seed),
              static_cast<long long>(g_flags.seed + g_flags.num_seeds - 1),
              static_cast<long long>(g_flags.num_steps), coverage.ToString().c_str());
  if (g_flags.num_seeds < 1000) return;  // floors are for the full run

  const int64_t steps = coverage.steps;
  EXPECT_GE(steps, g_flags.num_seeds * g_flags.num_steps * 2 / 3);
  EXPECT_GE(coverage.lookahead_steps, steps / 10);
  EXPECT_GE(coverage.preemptions, steps / 50);
  EXPECT_GE(coverage.prefix_hit_tokens, steps);
  EXPECT_GE(coverage.generated_hits, steps / 500);
  EXPECT_GE(coverage.evictions, steps / 20);
  EXPECT_GE(coverage.chunks, steps / 20);
  EXPECT_GE(coverage.window_steps, steps / 5);
  EXPECT_GE(coverage.collision_steps, steps / 10);
  EXPECT_GE(coverage.inputs_on_device, steps / 10);
  EXPECT_GE(coverage.dropped_results, steps / 200);
  EXPECT_GE(coverage.prompt_logprobs, steps / 100);
  EXPECT_GE(coverage.stops_before_min_tokens, steps / 1000);
  for (int64_t count :
       {coverage.refused_queue_full, coverage.refused_never_fits, coverage.finished_stop,
        coverage.finished_length, coverage.pauses, coverage.cancelled_waiting,
        coverage.cancelled_mid_prompt, coverage.cancelled_decoding, coverage.cancelled_final_step,
        coverage.cancelled_preempted, coverage.cancelled_in_flight, coverage.cancelled_paused}) {
    EXPECT_GE(count, steps / 1000);
  }
}

// Cancels and pauses can hide a livelock by removing who is stuck.
TEST(SimTest, EverythingEndsWithoutCancelsAndPauses) {
  Coverage coverage;
  for (int64_t i = 0; i < g_flags.num_seeds / 5 && !HasFailure(); ++i) {
    coverage.Add(RunSeed({.seed = g_flags.seed + 1'000'000 + i,
                          .num_steps = g_flags.num_steps,
                          .cancels = false,
                          .pauses = false}));
  }
  EXPECT_GE(coverage.preemptions, coverage.steps / 100);
}

// The rig sees what it is there to see: each fault of the device side is found in most seeds (in
// the others its opportunity never comes).
class CanaryTest : public testing::TestWithParam<Fault> {};

TEST_P(CanaryTest, IsFound) {
  constexpr int kNumSeeds = 40;
  int num_found = 0;
  for (int seed = 1; seed <= kNumSeeds; ++seed) {
    g_current_seed = seed;
    Simulation simulation(
        {.seed = static_cast<uint64_t>(seed), .num_steps = 300, .fault = GetParam()});
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

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  auto& flags = quire::sim::g_flags;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const char* value = std::strchr(argv[i], '=');
    if (value == nullptr) {
      std::fprintf(stderr, "unknown flag %s; known: --seed= --seeds= --steps=\n", argv[i]);
      return 64;
    }
    const int64_t number = std::atoll(value + 1);
    if (arg.starts_with("--seed=")) {
      flags.seed = number;
    } else if (arg.starts_with("--seeds=")) {
      flags.num_seeds = number;
    } else if (arg.starts_with("--steps=")) {
      flags.num_steps = number;
    } else {
      std::fprintf(stderr, "unknown flag %s; known: --seed= --seeds= --steps=\n", argv[i]);
      return 64;
    }
  }
  std::signal(SIGABRT, quire::sim::ReportSeedAndDie);
  return RUN_ALL_TESTS();
}

// simulate: runs the simulator over many seeds and stops at the first violation, which it prints
// with the command that repeats it.
//   --seed=S    first seed (default 1)        --seeds=N   how many, at most (default 1000)
//   --rounds=N  with arrivals, per seed (400) --steps=N   no further seed after N steps
//   --floors    fail as well when the run has met too little of what may happen
// Exit codes: 0 nothing found, 1 a violation or a floor missed, 64 bad arguments, 134 a CHECK, a
// crash or a hang.
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/simulation.h"

namespace quire::sim {
namespace {

struct Flags {
  uint64_t seed = 1;
  int64_t num_seeds = 1000;
  int64_t num_rounds = 400;
  int64_t max_steps = std::numeric_limits<int64_t>::max();
  bool floors = false;
};

// A seed takes milliseconds; one that takes so long hangs.
constexpr unsigned kHangSeconds = 30;

// What is running, for a signal handler.
struct Progress {
  const char* program = "";
  uint64_t seed = 0;
  int64_t num_rounds = 0;
  int64_t num_steps = 0;  // of the seeds before
  const Simulation* simulation = nullptr;
};

Progress& CurrentProgress() {
  static Progress progress;
  return progress;
}

void PrintReplay() {
  const Progress& p = CurrentProgress();
  std::fprintf(stderr, "found after %ld steps; replay: %s --seed=%lu --seeds=1 --rounds=%ld\n",
               p.num_steps + p.simulation->coverage().steps, p.program, p.seed, p.num_rounds);
}

void ReportAndDie(int signal) {
  std::fprintf(stderr, "violation: %s\n", signal == SIGALRM ? "a hang" : "a CHECK or a crash");
  PrintReplay();
  std::_Exit(134);
}

bool ParseNumber(std::string_view text, auto* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

bool ParseFlag(std::string_view arg, Flags* flags) {
  if (arg == "--floors") return flags->floors = true;
  const auto value_of = [&](std::string_view name) {
    return arg.starts_with(name) ? arg.substr(name.size()) : std::string_view();
  };
  return ParseNumber(value_of("--seed="), &flags->seed) ||
         ParseNumber(value_of("--seeds="), &flags->num_seeds) ||
         ParseNumber(value_of("--rounds="), &flags->num_rounds) ||
         ParseNumber(value_of("--steps="), &flags->max_steps);
}

int CheckFloors(const Flags& flags, const Coverage& coverage) {
  std::vector<std::string> missed = coverage.BelowFloors();
  if (coverage.steps < flags.max_steps) missed.emplace_back("too few steps for so many seeds");
  for (const std::string& line : missed) std::fprintf(stderr, "violation: %s\n", line.c_str());
  if (missed.empty()) return 0;
  std::fprintf(stderr,
               "found after %ld steps; replay: %s --seed=%lu --seeds=%ld --rounds=%ld --steps=%ld "
               "--floors\n",
               coverage.steps, CurrentProgress().program, flags.seed, flags.num_seeds,
               flags.num_rounds, flags.max_steps);
  return 1;
}

int Run(const Flags& flags) {
  Progress& progress = CurrentProgress();
  progress.num_rounds = flags.num_rounds;
  Coverage coverage;
  for (int64_t i = 0; i < flags.num_seeds && coverage.steps < flags.max_steps; ++i) {
    progress.seed = flags.seed + i;
    alarm(kHangSeconds);
    Simulation simulation({.seed = progress.seed, .num_rounds = flags.num_rounds});
    progress.simulation = &simulation;
    progress.num_steps = coverage.steps;
    const auto violation = simulation.Run();
    coverage.Add(simulation.coverage());
    if (!violation.has_value()) continue;
    std::fprintf(stderr, "violation: %s\nscenario: %s\n", violation->c_str(),
                 simulation.Describe().c_str());
    PrintReplay();
    return 1;
  }
  alarm(0);
  std::printf("no violation; seeds %lu..%lu, %ld rounds each:\n%s", flags.seed, progress.seed,
              flags.num_rounds, coverage.ToString().c_str());
  return flags.floors ? CheckFloors(flags, coverage) : 0;
}

}  // namespace
}  // namespace quire::sim

int main(int argc, char** argv) {
  quire::sim::Flags flags;
  for (int i = 1; i < argc; ++i) {
    if (quire::sim::ParseFlag(argv[i], &flags)) continue;
    std::fprintf(stderr,
                 "unknown argument %s; known: --seed= --seeds= --rounds= --steps= --floors\n",
                 argv[i]);
    return 64;
  }
  quire::sim::CurrentProgress().program = argv[0];
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGALRM}) {
    std::signal(signal, quire::sim::ReportAndDie);
  }
  return quire::sim::Run(flags);
}

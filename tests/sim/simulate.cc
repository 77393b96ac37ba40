// simulate: runs the simulator over many seeds and stops at the first violation, which it prints
// with the command that repeats it.
//   --seed=S    first seed (default 1)        --seeds=N   how many, at most (default 1000)
//   --rounds=N  with arrivals, per seed (400) --steps=N   no further seed after so many steps
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
constexpr unsigned kHangSeconds = 120;

// What a signal handler needs to know.
const char* g_program = "";
uint64_t g_seed = 0;
int64_t g_num_rounds = 0;
int64_t g_num_steps = 0;                   // of the seeds before
const Simulation* g_simulation = nullptr;  // in progress

void PrintReplay() {
  std::fprintf(stderr, "found after %lld steps; replay: %s --seed=%llu --seeds=1 --rounds=%lld\n",
               static_cast<long long>(g_num_steps + g_simulation->coverage().steps), g_program,
               static_cast<unsigned long long>(g_seed), static_cast<long long>(g_num_rounds));
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

int Run(const Flags& flags) {
  Coverage coverage;
  int64_t num_run = 0;
  for (; num_run < flags.num_seeds && coverage.steps < flags.max_steps; ++num_run) {
    g_seed = flags.seed + num_run;
    alarm(kHangSeconds);
    Simulation simulation({.seed = g_seed, .num_rounds = flags.num_rounds});
    g_simulation = &simulation;
    g_num_steps = coverage.steps;
    const auto violation = simulation.Run();
    coverage.Add(simulation.coverage());
    if (!violation.has_value()) continue;
    std::fprintf(stderr, "violation: %s\nscenario: %s\n", violation->c_str(),
                 simulation.Describe().c_str());
    PrintReplay();
    return 1;
  }
  alarm(0);
  std::printf("no violation; seeds %llu..%llu, %lld rounds each:\n%s",
              static_cast<unsigned long long>(flags.seed), static_cast<unsigned long long>(g_seed),
              static_cast<long long>(flags.num_rounds), coverage.ToString().c_str());
  if (!flags.floors) return 0;
  const std::vector<std::string> missed = coverage.BelowFloors();
  for (const std::string& line : missed) std::fprintf(stderr, "%s\n", line.c_str());
  if (coverage.steps < flags.max_steps) std::fprintf(stderr, "too few steps\n");
  return missed.empty() && coverage.steps >= flags.max_steps ? 0 : 1;
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
  quire::sim::g_program = argv[0];
  quire::sim::g_num_rounds = flags.num_rounds;
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGALRM}) {
    std::signal(signal, quire::sim::ReportAndDie);
  }
  return quire::sim::Run(flags);
}

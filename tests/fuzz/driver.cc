// The program around a fuzz target where there is no libFuzzer: runs it on mutated seeds, on a
// small stack and with bounded memory, and says how to repeat the input that crashed or hung.
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "kernels/base/check.h"
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/target.h"
#include "tests/small_stack.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#include <sanitizer/common_interface_defs.h>
#define QUIRE_SANITIZED 1
#else
#define QUIRE_SANITIZED 0
#endif

namespace quire::fuzz {
namespace {

// The most address space of the whole process. A run that needs more has believed a size.
// Sanitizers map terabytes.
constexpr rlim_t kMaxAddressSpaceBytes = rlim_t{2} << 30;
// Processor time, so that a busy machine cannot fail a run.
constexpr int kMaxSecondsPerInput = 10;

struct Options {
  uint64_t seed = 1;
  uint64_t first = 0;
  uint64_t runs = 10000;
  std::string file;        // run this input only
  std::string seeds_into;  // write the seeds there, for libFuzzer
};

// How to repeat the input under way; read by signal handlers.
char repeat_line[512];
const char* program_name = "";

void WriteRepeatLine() {
  size_t size = 0;
  while (repeat_line[size] != '\0') ++size;
  if (write(STDERR_FILENO, repeat_line, size) < 0) return;  // nothing more can be done
}

[[noreturn]] void Die(const char* message) {
  std::fprintf(stderr, "%s\n", message);
  std::exit(64);
}

void OnFatalSignal(int number) {
  WriteRepeatLine();
  signal(number, SIG_DFL);
  raise(number);
}

void OnTimeLimit(int) {
  constexpr char kMessage[] = "the input took too long\n";
  if (write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1) < 0) return;
  WriteRepeatLine();
  _exit(1);
}

void InstallHandlers() {
  struct sigaction action = {};
  action.sa_flags = SA_ONSTACK;
#if QUIRE_SANITIZED
  __sanitizer_set_death_callback(WriteRepeatLine);
#else
  // The faulting thread's own stack may be what has run out.
  static char signal_stack[64 * 1024];
  stack_t stack = {};
  stack.ss_sp = signal_stack;
  stack.ss_size = sizeof(signal_stack);
  CHECK_EQ(sigaltstack(&stack, nullptr), 0);
  action.sa_handler = OnFatalSignal;
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigaction(number, &action, nullptr);
  const rlimit limit = {kMaxAddressSpaceBytes, kMaxAddressSpaceBytes};
  CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
#endif
  action.sa_handler = OnFatalSignal;
  sigaction(SIGABRT, &action, nullptr);
  action.sa_handler = OnTimeLimit;
  sigaction(SIGPROF, &action, nullptr);
}

void RunInput(const std::string& input) {
  const itimerval timer = {{0, 0}, {kMaxSecondsPerInput, 0}};
  CHECK_EQ(setitimer(ITIMER_PROF, &timer, nullptr), 0);
  // A copy of the exact size, so that a sanitizer sees a read past its end.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) Die(("cannot read " + path).c_str());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void RunFile(const std::string& path) {
  std::snprintf(repeat_line, sizeof(repeat_line), "repeat with: %s --file %s\n", program_name,
                path.c_str());
  RunInput(ReadFile(path));
  std::printf("%s: passed\n", path.c_str());
}

void RunMutations(const Options& options) {
  Mutator mutator(Seeds(), Dictionary());
  for (uint64_t run = options.first; run < options.first + options.runs; ++run) {
    std::snprintf(repeat_line, sizeof(repeat_line),
                  "repeat with: %s --seed %llu --first %llu --runs 1\n", program_name,
                  static_cast<unsigned long long>(options.seed),
                  static_cast<unsigned long long>(run));
    RunInput(mutator.Input(options.seed, run));
  }
  std::printf("%llu runs, %llu inputs accepted\n", static_cast<unsigned long long>(options.runs),
              static_cast<unsigned long long>(num_accepted));
  // A target that accepts nothing tests only the first check of its parser.
  CHECK(options.runs < 1000 || num_accepted > options.runs / 1000) << "too few inputs accepted";
}

void WriteSeeds(const std::string& folder) {
  std::filesystem::create_directories(folder);
  int number = 0;
  for (const std::string& seed : Seeds()) {
    std::ofstream(folder + "/seed" + std::to_string(number++), std::ios::binary) << seed;
  }
}

uint64_t Number(const std::string& text) {
  uint64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) Die(("not a number: " + text).c_str());
  return value;
}

Options ParseOptions(int argc, char** argv) {
  constexpr char kUsage[] = "flags: --seed N --first N --runs N --file PATH --seeds-into FOLDER";
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (i + 1 == argc) Die(kUsage);
    const std::string value = argv[i + 1];
    if (flag == "--seed") {
      options.seed = Number(value);
    } else if (flag == "--first") {
      options.first = Number(value);
    } else if (flag == "--runs") {
      options.runs = Number(value);
    } else if (flag == "--file") {
      options.file = value;
    } else if (flag == "--seeds-into") {
      options.seeds_into = value;
    } else {
      Die(kUsage);
    }
  }
  return options;
}

void Run(const Options& options) {
  InstallHandlers();
  if (!options.seeds_into.empty()) {
    WriteSeeds(options.seeds_into);
  } else if (!options.file.empty()) {
    RunFile(options.file);
  } else {
    RunMutations(options);
  }
}

}  // namespace
}  // namespace quire::fuzz

int main(int argc, char** argv) {
  quire::fuzz::program_name = argv[0];
  const quire::fuzz::Options options = quire::fuzz::ParseOptions(argc, argv);
  quire::RunOnSmallStack([&options] { quire::fuzz::Run(options); });
  return 0;
}

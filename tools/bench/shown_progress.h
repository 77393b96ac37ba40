// A Progress that is shown on standard error while this object lives; standard output stays clean.
#pragma once

#include <cstdio>
#include <string>

#include "kernels/base/progress.h"
#include "server/start/progress_printer.h"

namespace quire::bench {

// If standard error is no terminal.
inline void PrintProgressLine(const std::string& line) {
  std::fprintf(stderr, "quire-bench: %s\n", line.c_str());
}

// On a terminal.
inline void DrawProgress(const std::string& bar) { std::fputs(bar.c_str(), stderr); }

class ShownProgress {
 public:
  ShownProgress() : printer_(progress_, PrintProgressLine, DrawProgress) {}

  Progress* get() { return &progress_; }

 private:
  Progress progress_;
  ProgressPrinter printer_;
};

}  // namespace quire::bench

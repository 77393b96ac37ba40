// The command line of `serve`. A flag has vLLM's name if vLLM's benchmark has such a flag.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/bench/load/arrivals.h"
#include "tools/bench/load/load.h"
#include "tools/bench/serve/dataset.h"
#include "tools/bench/serve/serve_report.h"
#include "tools/bench/serve/server_flags.h"

namespace quire::bench {

struct ServeFlags : ServerFlags {
  DatasetFlags dataset;
  Arrivals arrivals;
  LoadOptions load;
  int64_t num_warmups = 0;
  ReportOptions report;
  std::optional<uint64_t> seed;

  bool flushes_cache = false;  // before the load

  std::optional<std::string> json_file, dataset_file;
  bool append_result = false;  // adds a line to an earlier file of --save-result
  bool save_result = false;    // under vLLM's file name
  bool save_detailed = false;  // with every request
  std::string result_dir;
  std::string result_filename;
  std::string label;
  std::vector<std::pair<std::string, std::string>> metadata;

  // As they were written; CheckServeFlags reads them.
  std::vector<std::string> goodput, metadata_texts;
  double deadline_ms = 0;
  const CLI::App* command = nullptr;
};

void AddServeFlags(CLI::App& command, ServeFlags* flags);

// Fills the values that follow from the other flags. Errors (exit code 64) name the flag.
absl::Status CheckServeFlags(ServeFlags* flags);

}  // namespace quire::bench

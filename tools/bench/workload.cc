#include "tools/bench/workload.h"

#include <algorithm>
#include <fstream>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace quire::bench {

namespace {

using Lengths = std::vector<std::pair<int64_t, int64_t>>;  // input, output

absl::StatusOr<Lengths> ReadLengths(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read the workload file ", path));
  Lengths lengths;
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty()) continue;
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const bool valid = json.is_object() && json.contains("input_len") &&
                       json["input_len"].is_number_integer() && json.contains("output_len") &&
                       json["output_len"].is_number_integer();
    if (!valid) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, " line ", lengths.size() + 1, ": want {\"input_len\": N, \"output_len\": N}"));
    }
    lengths.emplace_back(json["input_len"].get<int64_t>(), json["output_len"].get<int64_t>());
  }
  return lengths;
}

}  // namespace

void AddWorkloadFlags(CLI::App& command, WorkloadFlags* flags) {
  const std::string group = "Workload";
  command.add_option("--num-prompts", flags->num_prompts, "Requests")
      ->capture_default_str()
      ->group(group);
  command.add_option("--input-len", flags->input_len, "Prompt tokens")
      ->capture_default_str()
      ->group(group);
  command.add_option("--output-len", flags->output_len, "Generated tokens")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--shared-prefix-len", flags->shared_prefix_len,
                  "Leading prompt tokens that all requests share")
      ->group(group);
  command.add_option("--workload", flags->file, "JSON lines of {\"input_len\", \"output_len\"}")
      ->group(group);
  command.add_option("--workload-seed", flags->seed, "Seed of the random token ids")->group(group);
}

absl::StatusOr<std::vector<WorkItem>> MakeWorkload(const WorkloadFlags& flags, int64_t vocab_size,
                                                   int64_t max_model_len) {
  Lengths lengths(flags.num_prompts, {flags.input_len, flags.output_len});
  if (!flags.file.empty()) {
    ASSIGN_OR_RETURN(lengths, ReadLengths(flags.file));
  }
  std::mt19937_64 random(flags.seed);
  std::uniform_int_distribution<int32_t> token(
      0, static_cast<int32_t>(std::min<int64_t>(vocab_size, 10000)) - 1);
  std::vector<int32_t> shared(flags.shared_prefix_len);
  for (int32_t& id : shared) id = token(random);
  std::vector<WorkItem> items;
  for (const auto& [input_len, output_len] : lengths) {
    if (input_len < 1 || output_len < 1 || input_len + output_len > max_model_len) {
      return absl::InvalidArgumentError(absl::StrCat("a request of ", input_len, " + ", output_len,
                                                     " tokens does not fit the context of ",
                                                     max_model_len, " tokens"));
    }
    WorkItem item = {.prompt = shared, .output_len = output_len};
    item.prompt.resize(input_len);
    for (int64_t i = std::min(input_len, flags.shared_prefix_len); i < input_len; ++i) {
      item.prompt[i] = token(random);
    }
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace quire::bench

#include "tools/bench/workload.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "engine/json/parse_json.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/command_line.h"
#include "tools/bench/failure.h"
#include "tools/bench/json_values.h"
#include "tools/cli/counted.h"

namespace quire::bench {

namespace {

struct Lengths {
  int64_t input_len;
  int64_t output_len;
};

constexpr int64_t kMaxTokens = int64_t{1} << 30;  // prompts of 4 GiB

int64_t DrawLength(int64_t length, double range_ratio, std::mt19937_64& random) {
  const double spread = range_ratio * static_cast<double>(length);
  const auto least = static_cast<int64_t>(std::ceil(static_cast<double>(length) - spread));
  const auto most = static_cast<int64_t>(std::floor(static_cast<double>(length) + spread));
  return std::uniform_int_distribution<int64_t>(std::max<int64_t>(1, least), most)(random);
}

absl::StatusOr<std::vector<Lengths>> ReadLengths(const std::string& path) {
  std::vector<Lengths> lengths;
  const auto take = [&](const std::string& line, int64_t) -> std::string {
    const auto json = ParseJson<nlohmann::ordered_json>(line);
    const Lengths one = {IntegerAt(json, "input_len").value_or(0),
                         IntegerAt(json, "output_len").value_or(0)};
    for (const int64_t value : {one.input_len, one.output_len}) {
      if (value >= 1 && value <= kMaxLength) continue;
      return absl::StrCat(R"(expected {"input_len": N, "output_len": N}, N from 1 to )",
                          kMaxLength);
    }
    lengths.push_back(one);
    return "";
  };
  RETURN_IF_ERROR(ReadLines("--workload", path, take));
  if (lengths.empty()) return UsageError(absl::StrCat("--workload: ", path, " has no requests"));
  return lengths;
}

absl::Status CheckLengths(const std::vector<Lengths>& all, int64_t shared_prefix_len,
                          int64_t max_model_len) {
  int64_t num_tokens = 0, longest_input = 0;
  for (const auto& [input_len, output_len] : all) {
    num_tokens += input_len;
    longest_input = std::max(longest_input, input_len);
    if (input_len + output_len > max_model_len) {
      return UsageError(absl::StrCat(
          "a request of ", input_len, " + ", output_len, " tokens does not fit the context of ",
          max_model_len,
          " tokens; ask for shorter ones, or give the model a longer context (--max-model-len)"));
    }
    if (num_tokens > kMaxTokens) {
      return UsageError(absl::StrCat("the prompts have more than ", kMaxTokens,
                                     " tokens together; ask for fewer or shorter ones"));
    }
  }
  if (shared_prefix_len > longest_input) {
    return UsageError(absl::StrCat("--shared-prefix-len: ", shared_prefix_len,
                                   " is longer than the longest prompt, ", longest_input,
                                   " tokens"));
  }
  return absl::OkStatus();
}

}  // namespace

void AddWorkloadFlags(CLI::App& command, WorkloadFlags* flags) {
  FlagGroup add(command, "Workload");
  auto* num_prompts = add.Count("--num-prompts", &flags->num_prompts, 1, 1'000'000, "Requests")
                          ->capture_default_str();
  auto* input_len = add.Count("--input-len,--random-input-len", &flags->input_len, 1, kMaxLength,
                              "Prompt tokens of each")
                        ->capture_default_str();
  auto* output_len = add.Count("--output-len,--random-output-len", &flags->output_len, 1,
                               kMaxLength, "Generated tokens of each")
                         ->capture_default_str();
  add.Real("--random-range-ratio", &flags->range_ratio, 0, 0.999,
           "Lengths differ: uniform within this share of them, more or less (default: 0)")
      ->type_name("SHARE");
  add.Count("--shared-prefix-len", &flags->shared_prefix_len, 0, kMaxLength,
            "Leading prompt tokens that all requests share")
      ->capture_default_str();
  add.Text("--workload", &flags->file, "FILE",
           "File of JSON lines {\"input_len\": N, \"output_len\": N}, one a request, in "
           "place of --num-prompts, --input-len and --output-len")
      ->excludes(num_prompts)
      ->excludes(input_len)
      ->excludes(output_len);
}

absl::StatusOr<std::vector<WorkItem>> MakeWorkload(const WorkloadFlags& flags, int64_t vocab_size,
                                                   int64_t max_model_len) {
  std::mt19937_64 random(flags.seed);
  std::vector<Lengths> lengths(flags.num_prompts, {flags.input_len, flags.output_len});
  if (!flags.file.empty()) {
    ASSIGN_OR_RETURN(lengths, ReadLengths(flags.file));
  } else if (flags.range_ratio > 0) {
    for (Lengths& one : lengths) {
      one = {DrawLength(flags.input_len, flags.range_ratio, random),
             DrawLength(flags.output_len, flags.range_ratio, random)};
    }
  }
  RETURN_IF_ERROR(CheckLengths(lengths, flags.shared_prefix_len, max_model_len));
  std::uniform_int_distribution<int32_t> token(
      0, static_cast<int32_t>(std::min<int64_t>(vocab_size, 10000)) - 1);
  std::vector<int32_t> shared(flags.shared_prefix_len);
  for (int32_t& id : shared) id = token(random);
  std::vector<WorkItem> items;
  for (const auto& [input_len, output_len] : lengths) {
    WorkItem item = {.prompt = shared, .output_len = output_len};
    item.prompt.resize(input_len);
    for (int64_t i = std::min(input_len, flags.shared_prefix_len); i < input_len; ++i) {
      item.prompt[i] = token(random);
    }
    items.push_back(std::move(item));
  }
  return items;
}

std::string WorkloadText(const WorkloadFlags& flags, const std::vector<WorkItem>& items) {
  std::string text = absl::StrCat(Counted(std::ssize(items), "request"), " of ");
  if (flags.file.empty()) {
    absl::StrAppend(&text, flags.input_len, " + ", flags.output_len, " tokens");
    if (flags.range_ratio > 0) absl::StrAppend(&text, ", +- ", 100 * flags.range_ratio, " %");
  } else {
    int64_t input = 0, output = 0;
    for (const WorkItem& item : items) {
      input += static_cast<int64_t>(item.prompt.size());
      output += item.output_len;
    }
    absl::StrAppend(&text, flags.file, ", ", input, " + ", output, " tokens in all");
  }
  if (flags.shared_prefix_len > 0) {
    absl::StrAppend(&text, ", the first ", flags.shared_prefix_len, " shared");
  }
  return text;
}

nlohmann::ordered_json WorkloadJson(const WorkloadFlags& flags,
                                    const std::vector<WorkItem>& items) {
  nlohmann::ordered_json json = {{"num_prompts", items.size()},
                                 {"shared_prefix_len", flags.shared_prefix_len}};
  if (flags.file.empty()) {
    json["input_len"] = flags.input_len;
    json["output_len"] = flags.output_len;
    if (flags.range_ratio > 0) json["random_range_ratio"] = flags.range_ratio;
  } else {
    json["file"] = flags.file;
  }
  return json;
}

}  // namespace quire::bench

#include "tools/bench/results/workload_check.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tools/bench/run_header.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

// What should be the same; vLLM's keys and ours.
constexpr const char* kKeys[] = {"command",
                                 "backend",
                                 "endpoint_type",
                                 "model",
                                 "model_id",
                                 "tokenizer_id",
                                 "num_prompts",
                                 "seed",
                                 "workload",
                                 "request_rate",
                                 "burstiness",
                                 "ramp_up_strategy",
                                 "ramp_up_start_rps",
                                 "ramp_up_end_rps",
                                 "max_concurrency",
                                 "sampling",
                                 "extra_body",
                                 "flushed_cache",
                                 "goodput",
                                 "latencies_from",
                                 "machine"};
constexpr size_t kLongest = 120;  // of a value that is shown

std::string Shown(const Json& value) {
  std::string text = LineOf(value);
  if (text.size() > kLongest) text = absl::StrCat(text.substr(0, kLongest), "...");
  return text;
}

// The share of the prompt tokens that a prefix cache had, in whole percent.
double CachedPercent(const Json& json) {
  const double all = NumberAt(json, "total_input_tokens").value_or(0);
  return all > 0 ? std::round(100 * NumberAt(json, "cached_input_tokens").value_or(0) / all) : 0;
}

}  // namespace

std::vector<std::string> DifferencesOf(const SavedRun& a, const SavedRun& b) {
  std::vector<std::string> sentences;
  const auto add = [&](const std::string& key, const Json& of_a, const Json& of_b) {
    sentences.push_back(absl::StrCat("not the same ", key, ": ", Shown(of_a), " (", a.path,
                                     ") and ", Shown(of_b), " (", b.path, ")"));
  };
  for (const char* key : kKeys) {
    if (!a.json().contains(key) || !b.json().contains(key)) continue;
    const Json &of_a = MemberOf(a.json(), key), &of_b = MemberOf(b.json(), key);
    if (!of_a.is_object() || !of_b.is_object()) {
      if (of_a != of_b) add(key, of_a, of_b);
      continue;
    }
    Json names = of_a;
    names.update(of_b);
    for (const auto& [name, unused] : names.items()) {
      const Json &in_a = MemberOf(of_a, name), &in_b = MemberOf(of_b, name);
      if (in_a == in_b) continue;
      add(absl::StrCat(key, ".", name), in_a, in_b);
      if (name == "dataset_name") break;  // each kind has members of its own
    }
  }
  const auto tokens_a = NumberAt(a.json(), "total_input_tokens"),
             tokens_b = NumberAt(b.json(), "total_input_tokens");
  if (sentences.empty() && tokens_a.has_value() && tokens_b.has_value() &&
      std::abs(*tokens_a - *tokens_b) > 0.01 * *tokens_a) {
    add("number of prompt tokens", *tokens_a, *tokens_b);
  }
  const double cached_a = CachedPercent(a.json()), cached_b = CachedPercent(b.json());
  if (std::abs(cached_a - cached_b) > 5) {
    add("percentage of prompt tokens found in a prefix cache", cached_a, cached_b);
    sentences.back() += "; serve --flush-cache empties it before a load";
  }
  return sentences;
}

std::vector<std::string> DoubtsOf(const SavedRun& run) {
  constexpr size_t kEnoughForP99 = 100;
  std::vector<std::string> sentences;
  const auto add = [&](const std::string& what) {
    sentences.push_back(absl::StrCat(run.path, ": ", what));
  };
  const double failed = NumberAt(run.json(), "failed").value_or(0);
  if (failed > 0) add(absl::StrFormat("%.0f requests failed", failed));
  const double completed = NumberAt(run.json(), "completed").value_or(0);
  const double uncounted = NumberAt(run.json(), "uncounted").value_or(0);
  const double stopped = NumberAt(run.json(), "stopped").value_or(0);
  if (uncounted > 0) {
    add(
        absl::StrFormat("nobody counted the tokens of %.0f requests: pieces of text count as those "
                        "of answers, and prompts as none",
                        uncounted));
  }
  if (stopped > 0 && MemberOf(MemberOf(run.json(), "sampling"), "ignore_eos") == true) {
    add(absl::StrFormat("%.0f of %.0f answers ended before they were as long as was asked for",
                        stopped, completed));
  }
  if (MemberOf(run.json(), "interrupted") == true) add("the run was interrupted");
  const Json& client = MemberOf(run.json(), "client");
  if (IsBottleneck(NumberAt(client, "cpu_share").value_or(0),
                   NumberAt(client, "p99_lag_ms").value_or(0))) {
    add("the client was the bottleneck, not the server alone");
  }
  if (!run.requests.empty() && run.requests.size() < kEnoughForP99) {
    add(absl::StrCat("a 99th percentile of ", run.requests.size(),
                     " requests rests on one of them"));
  }
  return sentences;
}

}  // namespace quire::bench

#include "tools/bench/serve/serve_flags.h"

#include <cmath>
#include <limits>

#include "CLI/CLI.hpp"
#include "kernels/base/status_macros.h"
#include "tools/bench/command_line.h"
#include "tools/bench/failure.h"
#include "tools/bench/run_header.h"
#include "tools/bench/sampling_flags.h"
#include "tools/bench/serve/foreign_serve_flags.h"

namespace quire::bench {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr int64_t kMost = 1'000'000;

void AddLoadFlags(CLI::App& command, ServeFlags* flags) {
  FlagGroup add(command, "Load");
  add.Real("--request-rate", &flags->arrivals.rate, 1e-6, kInfinity,
           "Requests per second, Poisson arrivals (default: all at once)");
  add.Real("--burstiness", &flags->arrivals.burstiness, 1e-3, 1e6,
           "Shape of the gaps' gamma distribution: less than 1 comes in bursts, more is evener "
           "(default: 1, Poisson)");
  add.OneOf("--ramp-up-strategy", &flags->arrivals.ramp, {"linear", "exponential"},
            "The rate goes from --ramp-up-start-rps to --ramp-up-end-rps: linear or exponential");
  add.Real("--ramp-up-start-rps", &flags->arrivals.ramp_start, 1e-6, 1e9, "");
  add.Real("--ramp-up-end-rps", &flags->arrivals.ramp_end, 1e-6, 1e9, "");
  add.Count("--max-concurrency", &flags->load.max_concurrency, 1, kMost,
            "Maximum of requests in flight; others wait in the client, which is measured "
            "(default: unbounded)");
  add.Count("--connections", &flags->load.num_connections, 1, kMost,
            "Connections at least; more are opened where these have no room (default: as many as "
            "are needed)");
  add.Real("--duration", &flags->load.max_seconds, 0.01, 1e7,
           "Seconds after which nothing more is sent and what runs is cancelled (default: to the "
           "last answer)");
  add.Real("--deadline-ms", &flags->deadline_ms, 0.1, 1e9,
           "A request is cancelled so long after it was sent (default: never)");
  add.Real("--cancel-rate", &flags->load.cancel_rate, 0, 1,
           "Share of the requests that are cancelled after some of their tokens (default: 0)");
  add.Count("--num-warmups", &flags->num_warmups, 0, kMost,
            "Requests before the load, one after the other, which are not measured (default: 0)");
  add.Switch("--flush-cache", &flags->flushes_cache,
             "Empty the server's prefix cache before the load, after the warm-ups");
}

void AddResultFlags(CLI::App& command, ServeFlags* flags) {
  FlagGroup add(command, "Results");
  add.OneOf("--percentile-metrics", &flags->report.metrics, flags->report.metrics,
            "Of ttft,tpot,itl,e2el,client_queue_time (default: all)")
      ->delimiter(',')
      ->type_name("LIST");
  add.Real("--metric-percentiles", &flags->report.percentiles, 0, 100, "In the file (default: 99)")
      ->delimiter(',')
      ->type_name("LIST");
  add.Text("--goodput", &flags->goodput, "METRIC:MS",
           "Bounds in ms that make a request a good one: ttft:MS tpot:MS e2el:MS");
  add.Json(&flags->json_file);
  add.Text("--save-dataset", &flags->dataset_file, "FILE",
           "Write the requests and their times, which --trace-file sends again");
  add.Switch("--save-result", &flags->save_result,
             "Write the same JSON under the name that vLLM's benchmark would give it");
  add.SaveDetailed(&flags->save_detailed);
  add.Text("--result-dir", &flags->result_dir, "FOLDER",
           "Folder of --save-result (default: this one)");
  add.Text("--result-filename", &flags->result_filename, "NAME", "Name of --save-result's file");
  add.Switch("--append-result", &flags->append_result,
             "--save-result's file keeps what it has and gets a line more");
  add.Text("--label", &flags->label, "TEXT", "Kept in the file, and in its name");
  add.Text("--metadata", &flags->metadata_texts, "KEY=VALUE",
           "KEY=VALUE kept in the file; may be repeated");
}

bool MayHaveConversations(const DatasetFlags& flags) {
  return flags.name == "custom" || flags.is_timed() || flags.conversation.turn_mean > 1 ||
         flags.conversation.turn_stddev > 0 || flags.conversation.max_turns > 1;
}

absl::Status CheckDataset(ServeFlags* flags) {
  DatasetFlags& dataset = flags->dataset;
  dataset.takes_messages = flags->backend == "quire" || flags->backend == "openai-chat";
  dataset.tells_token_ids = flags->backend == "quire" || flags->backend == "vllm-grpc";
  dataset.tells_text = flags->backend != "vllm-grpc";
  RETURN_IF_ERROR(CheckDatasetFlags(&dataset));
  const bool is_random_conversation =
      dataset.conversation.turn_mean > 1 || dataset.conversation.turn_stddev > 0;
  if (flags->backend == "openai-chat" || (is_random_conversation && !dataset.tells_token_ids)) {
    dataset.text = true;
  }
  // A trace is sent to its end.
  if (dataset.is_timed() && flags->command->count("--num-prompts") == 0) {
    dataset.random.num_prompts = std::numeric_limits<int64_t>::max();
  }
  return absl::OkStatus();
}

}  // namespace

void AddServeFlags(CLI::App& command, ServeFlags* flags) {
  flags->command = command.allow_extras();
  AddServerFlags(command, flags);
  AddDatasetFlags(command, &flags->dataset);
  AddSeedFlag(command, &flags->seed);
  AddLoadFlags(command, flags);
  AddSamplingFlags(command, &flags->server.sampling);
  AddIgnoreEosFlag(command, &flags->server.sampling);
  AddResultFlags(command, flags);
}

absl::Status CheckServeFlags(ServeFlags* flags) {
  RETURN_IF_ERROR(CheckForeignFlags(*flags->command));
  RETURN_IF_ERROR(CheckNothingLeft(*flags->command));
  RETURN_IF_ERROR(CheckSampling(flags->server.sampling));
  RETURN_IF_ERROR(CheckServerFlags(flags));
  RETURN_IF_ERROR(CheckDataset(flags));
  if (std::isinf(flags->arrivals.rate)) flags->arrivals.rate = 0;  // as vLLM's spelling
  RETURN_IF_ERROR(CheckArrivals(flags->arrivals));
  const bool has_rate = flags->arrivals.rate > 0 || !flags->arrivals.ramp.empty();
  if (has_rate && flags->dataset.is_timed()) {
    return UsageError("--request-rate: the trace has times of its own; use --trace-speedup");
  }
  flags->report.from_due = has_rate || flags->dataset.is_timed();
  ASSIGN_OR_RETURN(flags->report.goodput, ParseGoodput(flags->goodput));
  const bool names_file = !flags->result_dir.empty() || !flags->result_filename.empty();
  if (names_file && !flags->save_result) {
    return UsageError("--result-dir and --result-filename go with --save-result");
  }
  if (flags->append_result && flags->result_filename.empty()) {
    return UsageError("--append-result goes with --save-result and --result-filename");
  }
  if (flags->save_detailed && !flags->save_result && !flags->json_file.has_value()) {
    return UsageError("--save-detailed goes with --save-result or --json");
  }
  RETURN_IF_ERROR(SplitPairs("--metadata", flags->metadata_texts, &flags->metadata));
  flags->load.deadline_seconds = flags->deadline_ms / 1000;
  // A conversation goes on with its answers, and a tokenizer counts them.
  flags->server.keeps_answers = flags->save_detailed || MayHaveConversations(flags->dataset) ||
                                flags->dataset.tokenizer != nullptr;
  flags->load.seed = flags->dataset.random.seed = ChooseSeed(flags->seed);
  return absl::OkStatus();
}

}  // namespace quire::bench

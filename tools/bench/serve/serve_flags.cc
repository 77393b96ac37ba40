#include "tools/bench/serve/serve_flags.h"

#include <cmath>
#include <limits>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/base/environment.h"
#include "tools/bench/command_line.h"
#include "tools/bench/failure.h"
#include "tools/bench/run_header.h"
#include "tools/bench/sampling_flags.h"
#include "tools/client/credentials.h"
#include "tools/client/target.h"

namespace quire::bench {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

CLI::Option* AddNumber(CLI::App& command, const std::string& flag, double* value, double min,
                       double max, const std::string& help) {
  return command.add_option(flag, *value, help)->check(RealFrom(min, max))->type_name("NUMBER");
}

CLI::Option* AddCount(CLI::App& command, const std::string& flag, int64_t* value, int64_t min,
                      const std::string& help) {
  return command.add_option(flag, *value, help)
      ->check(CLI::Range(min, int64_t{1'000'000}))
      ->type_name("N");
}

void AddServerFlags(CLI::App& command, ServeFlags* flags) {
  const std::string group = "Server";
  command
      .add_option("--backend", flags->backend,
                  "What the server speaks: quire and vllm-grpc over gRPC, openai (completions) and "
                  "openai-chat over HTTP")
      ->check(CLI::IsMember(
          std::vector<std::string>(std::begin(kBackendNames), std::end(kBackendNames))))
      ->capture_default_str()
      ->group(group);
  client::AddTargetFlag(command, &flags->target);
  command.get_option("--target")->group(group);
  command
      .add_option("--base-url", flags->base_url,
                  "The same, as vLLM's benchmark calls it; wins over --target")
      ->type_name("URL")
      ->group(group);
  command
      .add_option("--endpoint", flags->server.endpoint,
                  "Path of the requests (default: the backend's own)")
      ->type_name("PATH")
      ->group(group);
  command
      .add_option("--model", flags->server.model,
                  "Name to ask for (default: the first that is served)")
      ->type_name("NAME")
      ->group(group);
  command
      .add_option("--header", flags->headers,
                  "KEY=VALUE to send with each request; may be repeated")
      ->type_name("KEY=VALUE")
      ->group(group);
  command
      .add_option("--extra-body", flags->server.extra_body,
                  "JSON object whose members are added to each request of an openai backend")
      ->type_name("JSON")
      ->group(group);
}

void AddLoadFlags(CLI::App& command, ServeFlags* flags) {
  const std::string group = "Load";
  AddNumber(command, "--request-rate", &flags->arrivals.rate, 1e-6, kInfinity,
            "Requests per second, Poisson arrivals (default: all at once)")
      ->group(group);
  AddNumber(command, "--burstiness", &flags->arrivals.burstiness, 1e-3, 1e6,
            "Shape of the gaps' gamma distribution: less than 1 comes in bursts, more is evener "
            "(default: 1, Poisson)")
      ->group(group);
  command
      .add_option(
          "--ramp-up-strategy", flags->arrivals.ramp,
          "The rate goes from --ramp-up-start-rps to --ramp-up-end-rps: linear or exponential")
      ->check(CLI::IsMember({"linear", "exponential"}))
      ->group(group);
  AddNumber(command, "--ramp-up-start-rps", &flags->arrivals.ramp_start, 1e-6, 1e9, "")
      ->group(group);
  AddNumber(command, "--ramp-up-end-rps", &flags->arrivals.ramp_end, 1e-6, 1e9, "")->group(group);
  AddCount(command, "--max-concurrency", &flags->load.max_concurrency, 1,
           "Maximum of requests in flight; others wait in the client, which is measured "
           "(default: unbounded)")
      ->group(group);
  AddCount(command, "--connections", &flags->load.num_connections, 1,
           "Connections at least; more are opened where these have no room (default: as many as "
           "are needed)")
      ->group(group);
  AddNumber(command, "--duration", &flags->load.max_seconds, 0.01, 1e7,
            "Seconds after which nothing more is sent and what runs is cancelled (default: to the "
            "last answer)")
      ->group(group);
  AddNumber(command, "--deadline-ms", &flags->deadline_ms, 0.1, 1e9,
            "A request is cancelled so long after it was sent (default: never)")
      ->group(group);
  AddNumber(command, "--cancel-rate", &flags->load.cancel_rate, 0, 1,
            "Share of the requests that are cancelled after some of their tokens (default: 0)")
      ->group(group);
  AddCount(command, "--num-warmups", &flags->num_warmups, 0,
           "Requests before the load, one after the other, which are not measured (default: 0)")
      ->group(group);
}

void AddResultFlags(CLI::App& command, ServeFlags* flags) {
  const std::string group = "Results";
  command
      .add_option("--percentile-metrics", flags->metrics,
                  "Of ttft,tpot,itl,e2el,client_queue_time (default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember({"ttft", "tpot", "itl", "e2el", "client_queue_time"}))
      ->type_name("LIST")
      ->group(group);
  command.add_option("--metric-percentiles", flags->percentiles, "In the file (default: 99)")
      ->delimiter(',')
      ->check(RealFrom(0, 100))
      ->type_name("LIST")
      ->group(group);
  command
      .add_option("--goodput", flags->goodput,
                  "Bounds in ms that make a request a good one: ttft:MS tpot:MS e2el:MS")
      ->type_name("METRIC:MS")
      ->group(group);
  AddJsonFlag(command, &flags->json_file);
  command
      .add_flag("--save-result", flags->save_result,
                "Write the same JSON under the name that vLLM's benchmark would give it")
      ->group(group);
  AddSaveDetailedFlag(command, &flags->save_detailed);
  command.get_option("--save-detailed")->group(group);
  command
      .add_option("--result-dir", flags->result_dir, "Folder of --save-result (default: this one)")
      ->type_name("FOLDER")
      ->group(group);
  command.add_option("--result-filename", flags->result_filename, "Name of --save-result's file")
      ->type_name("NAME")
      ->group(group);
  command.add_option("--label", flags->label, "Kept in the file, and in its name")->group(group);
  command
      .add_option("--metadata", flags->metadata_texts,
                  "KEY=VALUE kept in the file; may be repeated")
      ->type_name("KEY=VALUE")
      ->group(group);
}

absl::Status SplitPairs(const char* flag, const std::vector<std::string>& texts,
                        std::vector<std::pair<std::string, std::string>>* pairs) {
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return UsageError(absl::StrCat(flag, ": \"", text, "\" is not KEY=VALUE"));
    }
    pairs->emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return absl::OkStatus();
}

absl::Status CheckHeaders(ServeFlags* flags) {
  RETURN_IF_ERROR(SplitPairs("--header", flags->headers, &flags->server.headers));
  for (auto& [name, value] : flags->server.headers) {
    absl::AsciiStrToLower(&name);
    for (const char c : absl::StrCat(name, value)) {
      if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
        return UsageError(
            absl::StrCat("--header: \"", name, "\" has characters that no header has"));
      }
    }
  }
  std::string key = ReadEnvironment(client::kKeyVariable);
  if (key.empty()) key = ReadEnvironment("OPENAI_API_KEY");
  absl::StripAsciiWhitespace(&key);
  if (!key.empty()) flags->server.authorization = absl::StrCat("Bearer ", key);
  return absl::OkStatus();
}

absl::Status CheckServer(ServeFlags* flags) {
  if (!flags->base_url.empty()) {
    const absl::StatusOr<std::string> target = client::ParseTarget(flags->base_url);
    if (!target.ok()) return UsageError(absl::StrCat("--base-url: ", target.status().message()));
    flags->target = *target;
  }
  RETURN_IF_ERROR(CheckHeaders(flags));
  const bool is_openai = absl::StartsWith(flags->backend, "openai");
  if (!flags->server.extra_body.empty()) {
    if (!is_openai) return UsageError("--extra-body goes with --backend openai and openai-chat");
    const auto body = nlohmann::json::parse(flags->server.extra_body, nullptr, false);
    if (!body.is_object()) return UsageError("--extra-body is no JSON object");
  }
  if (flags->backend == "vllm-grpc" && !flags->server.model.empty()) {
    return UsageError("--model: --backend vllm-grpc asks for no model by name; leave it out");
  }
  if (flags->backend == "openai-chat") flags->dataset.text = true;
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
  RETURN_IF_ERROR(CheckNothingLeft(*flags->command));
  RETURN_IF_ERROR(CheckSampling(flags->server.sampling));
  RETURN_IF_ERROR(CheckServer(flags));
  RETURN_IF_ERROR(CheckDatasetFlags(flags->dataset));
  if (std::isinf(flags->arrivals.rate)) flags->arrivals.rate = 0;  // as vLLM's spelling
  RETURN_IF_ERROR(CheckArrivals(flags->arrivals));
  flags->report.from_due = flags->arrivals.rate > 0 || !flags->arrivals.ramp.empty();
  ASSIGN_OR_RETURN(flags->report.goodput, ParseGoodput(flags->goodput));
  if (!flags->metrics.empty()) flags->report.metrics = flags->metrics;
  if (!flags->percentiles.empty()) flags->report.percentiles.clear();
  for (const std::string& text : flags->percentiles) {
    double percent = 0;
    if (!absl::SimpleAtod(text, &percent)) {  // RealFrom has checked it
      return UsageError(absl::StrCat("--metric-percentiles: \"", text, "\" is no number"));
    }
    flags->report.percentiles.push_back(percent);
  }
  const bool names_file = !flags->result_dir.empty() || !flags->result_filename.empty();
  if (names_file && !flags->save_result) {
    return UsageError("--result-dir and --result-filename go with --save-result");
  }
  if (flags->save_detailed && !flags->save_result && !flags->json_file.has_value()) {
    return UsageError("--save-detailed goes with --save-result or --json");
  }
  RETURN_IF_ERROR(SplitPairs("--metadata", flags->metadata_texts, &flags->metadata));
  flags->load.deadline_seconds = flags->deadline_ms / 1000;
  flags->server.keeps_text = flags->save_detailed;
  flags->load.seed = flags->dataset.random.seed = ChooseSeed(flags->seed);
  return absl::OkStatus();
}

}  // namespace quire::bench

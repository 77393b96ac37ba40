// quire info: the served model and the state of the server.

#include <cstdio>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "nlohmann/json.hpp"
#include "tools/client/commands.h"
#include "tools/client/exit_codes.h"
#include "tools/client/failure.h"
#include "tools/client/inference_client.h"
#include "tools/client/output/json_output.h"
#include "tools/client/output/terminal_text.h"
#include "tools/client/target.h"

namespace quire::client {

namespace {

struct InfoFlags {
  std::string target;
  bool json = false;
};

void PrintModel(const v1::GetModelResponse& model) {
  std::printf("model             %s (%s, %.1f M parameters, %s)\n",
              TerminalSafe(model.name()).c_str(), TerminalSafe(model.architecture()).c_str(),
              static_cast<double>(model.num_parameters()) / 1e6,
              TerminalSafe(model.dtype()).c_str());
  for (const std::string& alias : model.aliases()) {
    std::printf("also called       %s\n", TerminalSafe(alias).c_str());
  }
  std::printf("device            %s\n", TerminalSafe(model.device()).c_str());
  if (model.kv_cache_dtype() != model.dtype()) {
    std::printf("KV cache          %s\n", TerminalSafe(model.kv_cache_dtype()).c_str());
  }
  std::printf("context           %lld tokens, vocabulary %lld\n",
              static_cast<long long>(model.max_model_len()),
              static_cast<long long>(model.vocab_size()));
  std::printf("server            quire %s\n", TerminalSafe(model.version()).c_str());
}

void PrintStatus(const v1::GetStatusResponse& status) {
  std::printf(
      "requests          %lld waiting, %lld sequences running, %lld paused, %lld streams%s\n",
      static_cast<long long>(status.waiting_requests()),
      static_cast<long long>(status.running_sequences()),
      static_cast<long long>(status.paused_sequences()),
      static_cast<long long>(status.active_streams()), status.draining() ? ", draining" : "");
  std::printf("KV blocks         %lld in use, %lld cached, %lld in all\n",
              static_cast<long long>(status.kv_blocks_in_use()),
              static_cast<long long>(status.kv_blocks_cached()),
              static_cast<long long>(status.kv_blocks_total()));
  const auto queried = static_cast<double>(status.prefix_queried_tokens());
  std::printf("prefix cache      %.1f %% of %.0f prompt tokens were hits\n",
              queried > 0 ? 100.0 * static_cast<double>(status.prefix_hit_tokens()) / queried : 0.0,
              queried);
  std::printf(
      "since start       %.0f s, %lld steps, %lld prompt and %lld generated tokens, "
      "%lld preemptions\n",
      status.uptime_seconds(), static_cast<long long>(status.steps()),
      static_cast<long long>(status.prompt_tokens()),
      static_cast<long long>(status.generated_tokens()),
      static_cast<long long>(status.preemptions()));
}

int Info(const InfoFlags& flags) {
  InferenceClient client(flags.target);
  const absl::StatusOr<v1::GetModelResponse> model = client.GetModel();
  if (!model.ok()) return ReportFailure(model.status(), flags.target);
  const absl::StatusOr<v1::GetStatusResponse> status = client.GetStatus();
  if (!status.ok()) return ReportFailure(status.status(), flags.target);
  if (flags.json) {
    PrintJson({{"model", MessageToJson(*model)}, {"status", MessageToJson(*status)}});
    return kOk;
  }
  PrintModel(*model);
  PrintStatus(*status);
  return kOk;
}

}  // namespace

Command AddInfo(CLI::App& app) {
  CLI::App* command = app.add_subcommand("info", "The served model and the server's state");
  const auto flags = std::make_shared<InfoFlags>();
  AddTargetFlag(*command, &flags->target);
  command->add_flag("--json", flags->json, "Print one JSON object");
  return [flags] { return Info(*flags); };
}

}  // namespace quire::client

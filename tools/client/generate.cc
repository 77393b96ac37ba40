// quire generate: one request, its text streamed to the terminal.

#include <cstdio>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "nlohmann/json.hpp"
#include "tools/client/commands.h"
#include "tools/client/exit_codes.h"
#include "tools/client/failure.h"
#include "tools/client/inference_client.h"
#include "tools/client/interrupt.h"
#include "tools/client/output/json_output.h"
#include "tools/client/output/stream_printer.h"
#include "tools/client/output/terminal_text.h"
#include "tools/client/prompt_flags.h"
#include "tools/client/request_flags.h"
#include "tools/client/target.h"
#include "tools/client/timeout_flag.h"

namespace quire::client {

namespace {

struct GenerateFlags {
  std::string target;
  PromptFlags prompt;
  RequestFlags request;
  double timeout_seconds = 0;
  bool json = false;
};

int Report(const GenerateFlags& flags, const StreamResult& result) {
  if (flags.json) {
    PrintJson(ToJson(result));
    return kOk;
  }
  PrintText(LogprobTables(result));
  std::fprintf(stderr, "%s\n", Summary(result).c_str());
  return kOk;
}

int Generate(const GenerateFlags& flags) {
  v1::GenerateRequest request;
  if (const absl::Status status = CheckPromptFlags(flags.prompt); !status.ok()) {
    return Refuse(std::string(status.message()));
  }
  const std::string problem = ApplyRequestFlags(flags.request, &request);
  if (!problem.empty()) return Refuse(problem);
  if (const absl::Status status = ApplyPromptFlags(flags.prompt, &request); !status.ok()) {
    return Refuse(std::string(status.message()));
  }
  request.mutable_output()->set_return_token_ids(flags.json);
  InferenceClient client(flags.target);
  CancellableCall call(flags.timeout_seconds);
  const InterruptGuard guard([&] { call.Cancel(); });
  const StreamResult result = RunStream(client, call, request, /*print=*/!flags.json);
  if (guard.interrupted()) {
    // Printed text has its line break already; without text, the terminal's "^C" needs one.
    if (flags.json || result.first_text_ms < 0) std::fprintf(stderr, "\n");
    return kInterrupted;
  }
  if (!result.status.ok()) return ReportFailure(result.status, flags.target);
  return Report(flags, result);
}

}  // namespace

Command AddGenerate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Complete a prompt or answer a message");
  const auto flags = std::make_shared<GenerateFlags>();
  AddTargetFlag(*command, &flags->target);
  AddPromptFlags(*command, &flags->prompt);
  AddTimeoutFlag(*command, "--timeout", "Seconds after which the call is given up; 0 = never",
                 &flags->timeout_seconds);
  command->add_flag("--json", flags->json, "Print one JSON object with everything, and no text");
  AddRequestFlags(*command, &flags->request);
  AddSingleRequestFlags(*command, &flags->request);
  return [flags] { return Generate(*flags); };
}

}  // namespace quire::client

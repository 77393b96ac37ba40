// quire abort, quire flush: what an operator does to a running server.

#include <cstdio>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "nlohmann/json.hpp"
#include "tools/cli/counted.h"
#include "tools/client/commands.h"
#include "tools/client/exit_codes.h"
#include "tools/client/failure.h"
#include "tools/client/inference_client.h"
#include "tools/client/output/json_output.h"
#include "tools/client/output/terminal_text.h"
#include "tools/client/target.h"

namespace quire::client {

namespace {

struct AdminFlags {
  std::string target, request_id, principal;
  bool json = false;
};

int Abort(const AdminFlags& flags) {
  if (flags.request_id.empty()) {
    std::fprintf(stderr, "quire: which request? Write quire abort REQUEST_ID\n");
    return kUsage;
  }
  v1::AbortRequest request;
  request.set_request_id(flags.request_id);
  request.set_principal(flags.principal);
  const absl::StatusOr<v1::AbortResponse> response = InferenceClient(flags.target).Abort(request);
  if (!response.ok()) return ReportFailure(response.status(), flags.target);
  if (flags.json) {
    PrintJson(MessageToJson(*response));
  } else if (response->found()) {
    PrintText("aborted " + flags.request_id + "\n");
  }
  if (response->found()) return kOk;
  std::fprintf(stderr, "quire: no request %s is running at %s\n", Quoted(flags.request_id).c_str(),
               flags.target.c_str());
  return kCallFailed;
}

int Flush(const AdminFlags& flags) {
  const absl::StatusOr<v1::FlushPrefixCacheResponse> response =
      InferenceClient(flags.target).FlushPrefixCache();
  if (!response.ok()) return ReportFailure(response.status(), flags.target);
  if (flags.json) {
    PrintJson(MessageToJson(*response));
  } else {
    std::printf("%s dropped from the prefix cache\n", Counted(response->blocks(), "block").c_str());
  }
  return kOk;
}

}  // namespace

Command AddAbort(CLI::App& app) {
  CLI::App* command = app.add_subcommand("abort", "End a running request");
  const auto flags = std::make_shared<AdminFlags>();
  AddTargetFlag(*command, &flags->target);
  command->add_option("request_id", flags->request_id,
                      "The request's id, as --request-id or a client gave it");
  command
      ->add_option("--principal", flags->principal, "Whose request it is, if several run this id")
      ->type_name("NAME");
  command->add_flag("--json", flags->json, "Print one JSON object");
  return [flags] { return Abort(*flags); };
}

Command AddFlush(CLI::App& app) {
  CLI::App* command = app.add_subcommand("flush", "Empty the prefix cache");
  const auto flags = std::make_shared<AdminFlags>();
  AddTargetFlag(*command, &flags->target);
  command->add_flag("--json", flags->json, "Print one JSON object");
  return [flags] { return Flush(*flags); };
}

}  // namespace quire::client

// quire tokenize: text to token ids, or back with --decode.

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "quire/v1/inference.grpc.pb.h"
#include "server/text/utf8.h"
#include "tools/cli/counted.h"
#include "tools/client/commands.h"
#include "tools/client/output/json_output.h"
#include "tools/client/output/terminal_text.h"
#include "tools/client/prompt_flags.h"
#include "tools/client/rpc.h"

namespace quire::client {

namespace {

struct TokenizeFlags {
  std::string target;
  std::optional<std::string> argument, text, message;
  std::vector<uint32_t> decode;
  bool no_special_tokens = false;
  bool keep_special_tokens = false;
  bool json = false;
};

int Refuse(const std::string& problem) {
  std::fprintf(stderr, "quire: %s\n", problem.c_str());
  return kUsage;
}

// Empty, or names two flags that contradict each other, or a flag and the one it needs.
std::string Contradiction(const TokenizeFlags& flags) {
  std::vector<std::string> given;
  if (flags.argument) given.emplace_back("a text as an argument");
  if (flags.text) given.emplace_back("--text");
  if (flags.message) given.emplace_back("--message");
  if (!flags.decode.empty()) given.emplace_back("--decode");
  if (given.size() > 1) {
    return given[0] + " and " + given[1] + " contradict each other; give one of them";
  }
  if (flags.keep_special_tokens && flags.decode.empty()) {
    return "--keep-special-tokens needs --decode";
  }
  if (flags.no_special_tokens && !flags.decode.empty()) {
    return "--no-special-tokens and --decode contradict each other: it is about encoding";
  }
  if (flags.no_special_tokens && flags.message) {
    return "--no-special-tokens and --message contradict each other: the chat template decides";
  }
  return "";
}

int Decode(v1::Inference::Stub& stub, const TokenizeFlags& flags) {
  v1::DetokenizeRequest request;
  for (const uint32_t id : flags.decode) request.add_ids(id);
  request.set_skip_special_tokens(!flags.keep_special_tokens);
  grpc::ClientContext context;
  v1::DetokenizeResponse response;
  const grpc::Status status = stub.Detokenize(&context, request, &response);
  if (!status.ok()) return ReportFailure(status, flags.target);
  if (flags.json) {
    PrintJson({{"text", response.text()}});
  } else {
    PrintText(response.text() + "\n");
  }
  return kOk;
}

int Encode(v1::Inference::Stub& stub, const TokenizeFlags& flags) {
  v1::TokenizeRequest request;
  request.set_return_tokens(true);
  if (flags.message) {
    v1::Message* message = request.mutable_messages()->add_messages();
    message->set_role("user");
    message->set_content(*flags.message);
  } else {
    const std::optional<std::string>& given = flags.argument ? flags.argument : flags.text;
    const std::string text = given ? *given : ReadStandardInput("the text");
    if (!IsValidUtf8(text)) return Refuse("the text is not UTF-8; it cannot be sent");
    request.mutable_text()->set_text(text);
    request.mutable_text()->set_add_special_tokens(!flags.no_special_tokens);
  }
  grpc::ClientContext context;
  v1::TokenizeResponse response;
  const grpc::Status status = stub.Tokenize(&context, request, &response);
  if (!status.ok()) return ReportFailure(status, flags.target);
  if (flags.json) {
    nlohmann::ordered_json json = {{"ids", response.ids()}, {"tokens", response.tokens()}};
    if (!response.rendered().empty()) json["rendered"] = response.rendered();
    PrintJson(json);
    return kOk;
  }
  for (int i = 0; i < response.ids_size(); ++i) {
    PrintText(absl::StrFormat("%6d  %s\n", response.ids(i), response.tokens(i)));
  }
  std::fprintf(stderr, "%s\n", Counted(response.ids_size(), "token").c_str());
  return kOk;
}

}  // namespace

Command AddTokenize(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tokenize", "Text to token ids and back");
  const auto flags = std::make_shared<TokenizeFlags>();
  AddTargetFlag(*command, &flags->target);
  command->add_option("text", flags->argument,
                      "Text to encode, as --text; without any, standard input is read");
  command->add_option("--text", flags->text, "Text to encode");
  command->add_option("--message", flags->message, "User message to render with the chat template");
  command->add_option("--decode", flags->decode, "Token ids to decode: 1,2,3")->delimiter(',');
  command->add_flag("--no-special-tokens", flags->no_special_tokens, "Add no BOS or EOS");
  command->add_flag("--keep-special-tokens", flags->keep_special_tokens, "Show them when decoding");
  command->add_flag("--json", flags->json, "Print one JSON object");
  return [flags] {
    const std::string problem = Contradiction(*flags);
    if (!problem.empty()) return Refuse(problem);
    const std::unique_ptr<v1::Inference::Stub> stub =
        v1::Inference::NewStub(Connect(flags->target));
    return flags->decode.empty() ? Encode(*stub, *flags) : Decode(*stub, *flags);
  };
}

}  // namespace quire::client

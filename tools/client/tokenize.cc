// quire tokenize: text to token ids, or back with --decode.

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "server/text/utf8.h"
#include "tools/cli/counted.h"
#include "tools/client/commands.h"
#include "tools/client/exit_codes.h"
#include "tools/client/failure.h"
#include "tools/client/inference_client.h"
#include "tools/client/output/json_output.h"
#include "tools/client/output/terminal_text.h"
#include "tools/client/prompt_flags.h"
#include "tools/client/target.h"

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

int Decode(InferenceClient& client, const TokenizeFlags& flags) {
  v1::DetokenizeRequest request;
  for (const uint32_t id : flags.decode) request.add_ids(id);
  request.set_skip_special_tokens(!flags.keep_special_tokens);
  const absl::StatusOr<v1::DetokenizeResponse> response = client.Detokenize(request);
  if (!response.ok()) return ReportFailure(response.status(), flags.target);
  if (flags.json) {
    PrintJson({{"text", response->text()}});
  } else {
    PrintText(response->text() + "\n");
  }
  return kOk;
}

int Encode(InferenceClient& client, const TokenizeFlags& flags) {
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
  const absl::StatusOr<v1::TokenizeResponse> response = client.Tokenize(request);
  if (!response.ok()) return ReportFailure(response.status(), flags.target);
  if (flags.json) {
    nlohmann::ordered_json json = {{"ids", response->ids()}, {"tokens", response->tokens()}};
    json["bytes"] = nlohmann::ordered_json::array();
    for (const std::string& bytes : response->token_bytes()) {
      json["bytes"].push_back(BytesToJson(bytes));
    }
    if (!response->rendered().empty()) json["rendered"] = response->rendered();
    PrintJson(json);
    return kOk;
  }
  for (int i = 0; i < response->ids_size(); ++i) {
    PrintText(absl::StrFormat("%6d  %s\n", response->ids(i), response->tokens(i)));
  }
  std::fprintf(stderr, "%s\n", Counted(response->ids_size(), "token").c_str());
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
    InferenceClient client(flags->target);
    return flags->decode.empty() ? Encode(client, *flags) : Decode(client, *flags);
  };
}

}  // namespace quire::client

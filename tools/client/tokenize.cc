// quire tokenize: text to token ids, or back with --decode.

#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "quire/v1/inference.grpc.pb.h"
#include "tools/client/commands.h"
#include "tools/client/rpc.h"

namespace quire::client {

namespace {

struct TokenizeFlags {
  std::string target = kDefaultTarget;
  std::string text, message;
  std::vector<uint32_t> decode;
  bool no_special_tokens = false;
  bool keep_special_tokens = false;
  bool json = false;
};

int Decode(v1::Inference::Stub& stub, const TokenizeFlags& flags) {
  v1::DetokenizeRequest request;
  for (const uint32_t id : flags.decode) request.add_ids(id);
  request.set_skip_special_tokens(!flags.keep_special_tokens);
  grpc::ClientContext context;
  v1::DetokenizeResponse response;
  const grpc::Status status = stub.Detokenize(&context, request, &response);
  if (!status.ok()) return ReportFailure(status, flags.target);
  if (flags.json) {
    std::printf("%s\n", nlohmann::json{{"text", response.text()}}.dump().c_str());
  } else {
    std::printf("%s\n", response.text().c_str());
  }
  return kOk;
}

int Encode(v1::Inference::Stub& stub, const TokenizeFlags& flags) {
  v1::TokenizeRequest request;
  request.set_return_tokens(true);
  if (!flags.message.empty()) {
    v1::Message* message = request.mutable_messages()->add_messages();
    message->set_role("user");
    message->set_content(flags.message);
  } else {
    request.mutable_text()->set_text(flags.text.empty()
                                         ? std::string(std::istreambuf_iterator<char>(std::cin), {})
                                         : flags.text);
    request.mutable_text()->set_add_special_tokens(!flags.no_special_tokens);
  }
  grpc::ClientContext context;
  v1::TokenizeResponse response;
  const grpc::Status status = stub.Tokenize(&context, request, &response);
  if (!status.ok()) return ReportFailure(status, flags.target);
  if (flags.json) {
    nlohmann::ordered_json json = {{"ids", response.ids()}, {"tokens", response.tokens()}};
    if (!response.rendered().empty()) json["rendered"] = response.rendered();
    std::printf("%s\n",
                json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return kOk;
  }
  for (int i = 0; i < response.ids_size(); ++i) {
    std::printf("%6u  %s\n", response.ids(i), response.tokens(i).c_str());
  }
  std::fprintf(stderr, "%d tokens\n", response.ids_size());
  return kOk;
}

}  // namespace

Command AddTokenize(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tokenize", "Text to token ids and back");
  const auto flags = std::make_shared<TokenizeFlags>();
  command->add_option("--target", flags->target, "HOST:PORT of the server")->capture_default_str();
  command->add_option("--text", flags->text, "Text to encode (default: standard input)");
  command->add_option("--message", flags->message, "User message to render with the chat template");
  command->add_option("--decode", flags->decode, "Token ids to decode: 1,2,3")->delimiter(',');
  command->add_flag("--no-special-tokens", flags->no_special_tokens, "Add no BOS or EOS");
  command->add_flag("--keep-special-tokens", flags->keep_special_tokens, "Show them when decoding");
  command->add_flag("--json", flags->json, "Print one JSON object");
  return [flags] {
    const std::unique_ptr<v1::Inference::Stub> stub =
        v1::Inference::NewStub(Connect(flags->target));
    return flags->decode.empty() ? Encode(*stub, *flags) : Decode(*stub, *flags);
  };
}

}  // namespace quire::client

// Encodes and decodes for tests in other languages. usage: tokenizer_tool MODEL_FOLDER
// Each line on standard input is a JSON value; each answer a line of JSON on standard output:
//   "text"                     -> ids, with the special tokens around it, those in the text parsed
//   {"plain": "text"}          -> ids, with nothing around it and special tokens as plain text
//   [1, 2, 3]                  -> text, special tokens shown
//   {"skip": [1, 2, 3]}        -> text, special tokens skipped
//   {"stream": [1, 2, 3]}      -> text as a stream decoder gives it, special tokens shown
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "server/tokenizer/stream_decoder.h"
#include "server/tokenizer/tokenizer.h"

namespace {

using nlohmann::json;
using quire::TokenId;

json Ids(absl::StatusOr<std::vector<TokenId>> ids) {
  if (!ids.ok()) return json{{"error", ids.status().ToString()}};
  return json(*ids);
}

std::string DecodeAsStream(const std::shared_ptr<const quire::Tokenizer>& tokenizer,
                           const std::vector<TokenId>& ids) {
  quire::StreamDecoder decoder(tokenizer, /*skip_special_tokens=*/false);
  std::string text;
  for (const TokenId id : ids) text.append(decoder.Append(id));
  text.append(decoder.Flush());
  return text;
}

json Answer(const std::shared_ptr<const quire::Tokenizer>& tokenizer, const json& request) {
  if (request.is_string()) {
    return Ids(tokenizer->Encode(request.get<std::string>(),
                                 {.add_special_tokens = true, .parse_special_tokens = true}));
  }
  if (request.is_array()) {
    return tokenizer->Decode(request.get<std::vector<TokenId>>(), /*skip_special_tokens=*/false);
  }
  if (request.contains("plain")) {
    return Ids(tokenizer->Encode(request["plain"].get<std::string>(),
                                 {.add_special_tokens = false, .parse_special_tokens = false}));
  }
  if (request.contains("skip")) {
    return tokenizer->Decode(request["skip"].get<std::vector<TokenId>>(),
                             /*skip_special_tokens=*/true);
  }
  return DecodeAsStream(tokenizer, request.at("stream").get<std::vector<TokenId>>());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: tokenizer_tool MODEL_FOLDER\n");
    return 64;
  }
  absl::StatusOr<std::shared_ptr<const quire::Tokenizer>> tokenizer =
      quire::Tokenizer::Load(argv[1]);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.status().ToString().c_str());
    return 66;
  }
  std::string line;
  while (std::getline(std::cin, line)) std::cout << Answer(*tokenizer, json::parse(line)) << '\n';
  return 0;
}

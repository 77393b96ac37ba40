// Encodes and decodes for tests in other languages. usage: tokenizer_tool MODEL_FOLDER
// Each line on standard input is a JSON value, each answer a line of JSON on standard output; an
// empty line brings all answers so far:
//   "text"                     -> ids, with the special tokens around it, those in the text parsed
//   {"plain": "text"}          -> ids, with nothing around it and special tokens as plain text
//   [1, 2, 3]                  -> text, special tokens shown
//   {"skip": [1, 2, 3]}        -> text, special tokens skipped
//   {"stream": [1, 2, 3]}      -> text as a stream decoder gives it, special tokens shown
//   {"splits": [1, 2, 3]}      -> null if a stream that ends after the n-th token has the text of
//                                 those n tokens decoded at once, for every n; else the first n
//   {"named": true}            -> the ids of the tokens that begin and end a text, or null
//   {"hex": "61c3"}            -> ids as for "text", of these bytes
//   {"time": ["text"]}         -> bytes per second of the thread's time, encoding these as plain
//   text
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "server/text/tokenizer/stream_decoder.h"
#include "server/text/tokenizer/tokenizer.h"

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

json FirstWrongSplit(const std::shared_ptr<const quire::Tokenizer>& tokenizer,
                     const std::vector<TokenId>& ids) {
  for (size_t n = 0; n <= ids.size(); ++n) {
    const std::vector<TokenId> head(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n));
    if (DecodeAsStream(tokenizer, head) != tokenizer->Decode(head, /*skip_special_tokens=*/false))
      return n;
  }
  return nullptr;
}

std::string Bytes(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

json BytesPerSecond(const quire::Tokenizer& tokenizer, const std::vector<std::string>& texts,
                    int num_rounds) {
  json speeds = json::array();
  for (int round = 0; round < num_rounds; ++round) {
    size_t num_bytes = 0;
    const double started = ThreadSeconds();
    for (const std::string& text : texts) {
      if (tokenizer.Encode(text, {.add_special_tokens = false}).ok()) num_bytes += text.size();
    }
    speeds.push_back(static_cast<double>(num_bytes) / (ThreadSeconds() - started));
  }
  return speeds;
}

json Answer(const std::shared_ptr<const quire::Tokenizer>& tokenizer, const json& request) {
  if (request.is_string()) {
    return Ids(tokenizer->Encode(request.get<std::string>(),
                                 {.add_special_tokens = true, .parse_special_tokens = true}));
  }
  if (request.is_array()) {
    return tokenizer->Decode(request.get<std::vector<TokenId>>(), /*skip_special_tokens=*/false);
  }
  if (request.contains("hex")) {
    return Ids(tokenizer->Encode(Bytes(request["hex"].get<std::string>()),
                                 {.add_special_tokens = true, .parse_special_tokens = true}));
  }
  if (request.contains("named")) {
    const auto or_null = [](std::optional<TokenId> id) { return id ? json(*id) : json(); };
    return {{"bos", or_null(tokenizer->bos_id())}, {"eos", or_null(tokenizer->eos_id())}};
  }
  if (request.contains("splits")) {
    return FirstWrongSplit(tokenizer, request["splits"].get<std::vector<TokenId>>());
  }
  if (request.contains("time")) {
    return BytesPerSecond(*tokenizer, request["time"].get<std::vector<std::string>>(),
                          request.at("rounds").get<int>());
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
  std::ios::sync_with_stdio(false);
  std::cin.tie(nullptr);
  while (std::getline(std::cin, line)) {
    if (line.empty()) {
      std::cout.flush();
    } else {
      std::cout << Answer(*tokenizer, json::parse(line)) << '\n';
    }
  }
  return 0;
}

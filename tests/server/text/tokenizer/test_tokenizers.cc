#include "tests/server/text/tokenizer/test_tokenizers.h"

#include <array>
#include <random>

#include "gtest/gtest.h"
#include "server/text/tokenizer/models/byte_level.h"
#include "server/text/utf8.h"

namespace quire::testing {
namespace {

using nlohmann::json;

json Bpe(json vocab, const Merges& merges) {
  json model = {{"type", "BPE"}, {"merges", json::array()}};
  for (const auto& [left, right] : merges) {
    model["merges"].push_back({left, right});
    vocab[left + right] = vocab.size();
  }
  model["vocab"] = std::move(vocab);
  return {{"version", "1.0"}, {"added_tokens", json::array()}, {"model", std::move(model)}};
}

}  // namespace

json ByteLevelJson(const Merges& merges) {
  json vocab = json::object();
  for (int byte = 0; byte < 256; ++byte) {
    vocab[std::string(ByteLevelChar(static_cast<uint8_t>(byte)))] = byte;
  }
  json result = Bpe(std::move(vocab), merges);
  result["pre_tokenizer"] = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  result["decoder"] = {{"type", "ByteLevel"}};
  return result;
}

json SentencePieceJson(const std::vector<std::string>& alphabet, const Merges& merges) {
  json vocab = {{"<unk>", 0}};
  for (int byte = 0; byte < 256; ++byte) vocab[ByteToken(static_cast<uint8_t>(byte))] = byte + 1;
  for (const std::string& character : alphabet) vocab[character] = vocab.size();
  json result = Bpe(std::move(vocab), merges);
  result["model"]["unk_token"] = "<unk>";
  result["model"]["byte_fallback"] = true;
  result["model"]["fuse_unk"] = true;
  result["normalizer"] = json::parse(R"({"type": "Sequence", "normalizers": [
      {"type": "Prepend", "prepend": "▁"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})");
  result["decoder"] = json::parse(R"({"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
      {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})");
  return result;
}

json UnigramJson(const Pieces& pieces, double unk_score) {
  json vocab = json::array({json::array({"<unk>", unk_score})});
  for (const auto& [text, score] : pieces) vocab.push_back({text, score});
  return {{"version", "1.0"},
          {"added_tokens", json::array()},
          {"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", std::move(vocab)}}}};
}

TokenId AddToken(json* tokenizer, std::string_view content, const json& flags) {
  const std::string text(content);
  const json& vocab = (*tokenizer)["model"]["vocab"];
  json token = flags;
  token["content"] = text;
  size_t id = vocab.size() + (*tokenizer)["added_tokens"].size();
  if (vocab.is_object() && vocab.contains(text)) id = vocab[text].get<size_t>();
  for (size_t i = 0; vocab.is_array() && i < vocab.size(); ++i) {
    if (vocab[i][0] == text) id = i;
  }
  token["id"] = id;
  (*tokenizer)["added_tokens"].push_back(token);
  return token["id"].get<TokenId>();
}

json SplitThenBytes(std::string_view regex) {
  json split = {{"type", "Split"}, {"behavior", "Isolated"}, {"invert", false}};
  split["pattern"]["Regex"] = std::string(regex);
  json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {std::move(split), std::move(bytes)}}};
}

std::shared_ptr<const Tokenizer> Make(const json& tokenizer, std::string_view config) {
  absl::StatusOr<std::shared_ptr<const Tokenizer>> made =
      Tokenizer::FromJson(tokenizer.dump(), config);
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *made : nullptr;
}

std::vector<std::string> Tokens(const Tokenizer& tokenizer, std::string_view text,
                                EncodeOptions options) {
  const absl::StatusOr<std::vector<TokenId>> ids = tokenizer.Encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.status();
  std::vector<std::string> tokens;
  if (!ids.ok()) return tokens;
  for (const TokenId id : *ids) tokens.emplace_back(tokenizer.IdToToken(id));
  return tokens;
}

std::string RandomText(uint64_t seed, size_t num_chars) {
  struct Pool {
    char32_t first;
    char32_t last;
  };
  static constexpr std::array<Pool, 18> kPools = {{{0x20, 0x7E},
                                                   {0x09, 0x0D},
                                                   {0x20, 0x20},
                                                   {'0', '9'},
                                                   {'a', 'z'},
                                                   {0x85, 0xA0},
                                                   {0xA1, 0x24F},
                                                   {0x300, 0x36F},
                                                   {0x660, 0x669},
                                                   {0x180E, 0x180E},
                                                   {0x2000, 0x2030},
                                                   {0x2150, 0x2188},
                                                   {0x3000, 0x30FF},
                                                   {0x4E00, 0x4E80},
                                                   {0x10D40, 0x10D85},
                                                   {0x11380, 0x113E1},
                                                   {0x1F600, 0x1F64F},
                                                   {0x31350, 0x31360}}};
  static constexpr std::array<std::string_view, 12> kBits = {
      "'s", "'T", "'re", "'LL", "'\u017F", "\r\n", "  ", " \n", "\u3000", "1234", "!?", "'"};
  std::mt19937_64 random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  std::string text;
  for (size_t i = 0; i < num_chars; ++i) {
    if (below(8) == 0) text.append(kBits[below(kBits.size())]);
    const Pool pool = kPools[below(kPools.size())];
    AppendUtf8(pool.first + static_cast<char32_t>(below(pool.last - pool.first + 1)), &text);
  }
  return text;
}

}  // namespace quire::testing

#include "tests/fuzz/test_models.h"

#include "kernels/base/check.h"
#include "server/text/tokenizer/models/byte_level.h"
#include "server/text/tokenizer/regex/known_patterns.h"
#include "tests/server/text/tokenizer/test_tokenizers.h"

namespace quire::fuzz {
namespace {

std::shared_ptr<const Tokenizer> FromJson(const nlohmann::json& file) {
  auto tokenizer = Tokenizer::FromJson(file.dump());
  CHECK(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

std::shared_ptr<const Tokenizer> LlamaLike() {
  nlohmann::json file = testing::ByteLevelJson({{"a", "b"}, {"Ġ", "ab"}, {"Ġ", "Ġ"}, {"Ċ", "Ċ"}});
  file["pre_tokenizer"] = testing::SplitThenBytes(PatternText(KnownPattern::kLlama3));
  testing::AddToken(&file, "<|eot|>", {{"special", true}});
  return FromJson(file);
}

std::shared_ptr<const Tokenizer> SentencePiece() {
  nlohmann::json file =
      testing::SentencePieceJson({"▁", "a", "b", "é", "日"}, {{"▁", "a"}, {"a", "b"}, {"▁", "▁"}});
  testing::AddToken(&file, "</s>", {{"special", true}});
  return FromJson(file);
}

std::shared_ptr<const Tokenizer> Unigram() {
  testing::Pieces pieces = {{"</s>", 0},  {"▁", -1},  {"a", -2},
                            {"▁a", -2.5}, {"日", -3}, {"ab", -3.5}};
  for (int byte = 0; byte < 256; ++byte) {
    pieces.emplace_back(ByteToken(static_cast<uint8_t>(byte)), -20);
  }
  nlohmann::json file = testing::UnigramJson(pieces);
  file["model"]["byte_fallback"] = true;
  file["normalizer"] = {{"type", "NFKC"}};
  file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}};
  file["decoder"] = nlohmann::json::parse(
      R"({"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Metaspace", "replacement": "▁"}]})");
  testing::AddToken(&file, "</s>", {{"special", true}});
  return FromJson(file);
}

}  // namespace

const std::vector<std::shared_ptr<const Tokenizer>>& TestTokenizers() {
  static const auto& tokenizers = *[] {
    auto bundled = Tokenizer::Load("configs/demo");
    CHECK(bundled.ok()) << bundled.status();
    return new std::vector<std::shared_ptr<const Tokenizer>>{LlamaLike(), *std::move(bundled),
                                                             SentencePiece(), Unigram()};
  }();
  return tokenizers;
}

}  // namespace quire::fuzz

#include "tests/fuzz/test_models.h"

#include "kernels/base/check.h"
#include "server/tokenizer/known_patterns.h"
#include "tests/server/tokenizer/test_tokenizers.h"

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

}  // namespace

const std::vector<std::shared_ptr<const Tokenizer>>& TestTokenizers() {
  static const auto& tokenizers = *[] {
    auto bundled = Tokenizer::Load("configs/demo");
    CHECK(bundled.ok()) << bundled.status();
    return new std::vector<std::shared_ptr<const Tokenizer>>{LlamaLike(), *std::move(bundled),
                                                             SentencePiece()};
  }();
  return tokenizers;
}

}  // namespace quire::fuzz

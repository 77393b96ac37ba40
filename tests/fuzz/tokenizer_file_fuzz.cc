// tokenizer.json and the files beside it: a tokenizer that loads can encode and decode. Input:
// tokenizer.json; each after a zero byte, as far as there are any, tokenizer_config.json,
// special_tokens_map.json and added_tokens.json.
#include "kernels/base/check.h"
#include "server/text/tokenizer/tokenizer.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/tokenizer_properties.h"
#include "tests/server/text/tokenizer/test_tokenizers.h"

namespace quire::fuzz {
namespace {

using nlohmann::json;

constexpr char kConfig[] =
    R"({"bos_token":"<s>","eos_token":{"content":"</s>"},"additional_special_tokens":["ab"]})";
constexpr char kDecoder[] =
    R"({"added_tokens_decoder":{"258":{"content":"<s>","special":false},"300":{"content":"<n>"}}})";
constexpr char kMap[] = R"({"pad_token":{"content":"b","lstrip":true},"unk_token":"word"})";
constexpr char kAdded[] = R"({"<new>":400,"a":97})";

json WithEverything() {
  json file = testing::ByteLevelJson({{"a", "b"}, {"Ġ", "ab"}});
  testing::AddToken(&file, "<s>", {{"special", true}});
  testing::AddToken(&file, "</s>", {{"special", true}, {"lstrip", true}});
  testing::AddToken(&file, "word", {{"single_word", true}, {"normalized", true}});
  file["normalizer"] = json::parse(
      R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Replace","pattern":)"
      R"({"Regex":"x+"},"content":"y"},{"type":"Lowercase"},{"type":"Prepend","prepend":" "}]})");
  file["pre_tokenizer"] =
      testing::SplitThenBytes(R"(\p{L}+|\p{N}{1,3}|\s+(?!\S)|[^\s\p{L}\p{N}]+)");
  file["post_processor"] = json::parse(
      R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},)"
      R"({"Sequence":{"id":"A","type_id":0}}],"pair":[],)"
      R"("special_tokens":{"<s>":{"id":"<s>","ids":[258],"tokens":["<s>"]}}})");
  return file;
}

json Unigram() {
  json file = testing::UnigramJson({{"▁", -1}, {"▁a", -2.5}, {"a", -2}, {"b", -3}, {"ab", -4}});
  file["normalizer"] = {{"type", "NFKC"}};
  file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}};
  file["decoder"] = {{"type", "Metaspace"}, {"replacement", "▁"}};
  testing::AddToken(&file, "<unk>", {{"special", true}});
  return file;
}

}  // namespace

std::vector<std::string> Seeds() {
  const json sentence_piece = testing::SentencePieceJson({"▁", "a", "b", "é"}, {{"▁", "a"}});
  return {
      testing::ByteLevelJson({{"a", "b"}}).dump(),
      sentence_piece.dump(),
      Unigram().dump(),
      WithEverything().dump() + '\0' + kConfig,
      WithEverything().dump() + '\0' + kDecoder,
      WithEverything().dump() + '\0' + kConfig + '\0' + kMap + '\0' + kAdded,
  };
}

std::vector<std::string> Dictionary() {
  return {"\"type\":\"Sequence\"",
          "\"normalizer\":{\"type\":\"NFKD\"},",
          "\"normalizer\":{\"type\":\"Nmt\"},",
          "\"type\":\"Unigram\",",
          "\"unk_id\":0,",
          "[\"ab\",-1.5],",
          "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\"},",
          "\"pre_tokenizer\":{\"type\":\"Digits\",\"individual_digits\":true},",
          "\"pre_tokenizer\":null,",
          "\"decoder\":{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0},",
          "\"decoder\":{\"type\":\"ByteFallback\"},",
          "\"decoder\":null,",
          "\"ignore_merges\":true,",
          "\"byte_fallback\":true,",
          "\"unk_token\":\"a\",",
          "\"Regex\":\"(a|b)*c\"",
          "\"Regex\":\"(?<=a)\"",
          "\"Regex\":\"(.*)*$\"",
          "\"special\":true,",
          "\"content\":\"\",",
          "\"id\":",
          "\"merges\":[],"};
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;  // NOLINT(build/namespaces)
  fuzz::InputReader input(data, size);
  const std::string_view file = input.TakeUntil('\0');
  const std::string_view config = input.TakeUntil('\0');
  const std::string_view map = input.TakeUntil('\0');
  const auto tokenizer = Tokenizer::FromJson(file, config, map, input.rest());
  if (!tokenizer.ok()) {
    CHECK(absl::IsInvalidArgument(tokenizer.status()) || absl::IsUnimplemented(tokenizer.status()))
        << tokenizer.status();
    return 0;
  }
  ++fuzz::num_accepted;
  for (const std::string_view text :
       {"ab a é <s> word 123\n", " ", "\u0301日本 xxx</s>", "aaaaaaaaaaaaaaaaaaaaaaaaab\t!"}) {
    const std::vector<TokenId> ids = fuzz::CheckedEncode(**tokenizer, text);
    fuzz::CheckDecoding(*tokenizer, ids);
    const auto with_special = (*tokenizer)->Encode(text, {.parse_special_tokens = true});
    if (with_special.ok()) fuzz::CheckDecoding(*tokenizer, *with_special);
  }
  return 0;
}

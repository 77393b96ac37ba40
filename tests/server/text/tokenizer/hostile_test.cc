// What must not break the tokenizer: long runs of one kind of character on a small stack, and
// broken files.
#include <functional>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/text/tokenizer/models/byte_level.h"
#include "server/text/tokenizer/regex/known_patterns.h"
#include "server/text/tokenizer/stages/added_tokens.h"
#include "server/text/tokenizer/stream_decoder.h"
#include "server/text/utf8.h"
#include "tests/server/text/tokenizer/test_tokenizers.h"
#include "tests/small_stack.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::ByteLevelJson;
using testing::Make;
using testing::SentencePieceJson;
using testing::SplitThenBytes;
using testing::UnigramJson;

constexpr size_t kRunBytes = size_t{1} << 20;
constexpr char kO200k[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// A megabyte of each: one class after another, and mixtures that make patterns look ahead and back.
std::vector<std::string> Runs() {
  std::vector<std::string> runs;
  for (const std::string_view unit : {"a", "日", "½", "!", " ", "\n", "\u0301", "😀", "\u0334\u0315",
                                      " \n", "\u180E", "\U00010D4A", "<e>"}) {
    std::string run;
    while (run.size() < kRunBytes)
      absl::StrAppend(&run, absl::string_view(unit.data(), unit.size()));
    runs.push_back(std::move(run));
  }
  return runs;
}

void ExpectRoundTrips(const json& file) {
  const auto tokenizer = Make(file);
  ASSERT_NE(tokenizer, nullptr);
  for (const std::string& run : Runs()) {
    RunOnSmallStack([&] {
      const auto ids = tokenizer->Encode(run, {.add_special_tokens = false});
      ASSERT_TRUE(ids.ok()) << ids.status();
      ASSERT_EQ(tokenizer->Decode(*ids, false), run) << run.substr(0, 12);
    });
  }
}

TEST(HostileTextTest, LongRunsThroughByteLevelTokenizers) {
  json file = ByteLevelJson({{"a", "a"}, {"aa", "aa"}, {"Ġ", "Ġ"}, {"Ċ", "Ċ"}});
  testing::AddToken(&file, "<e>", {{"special", true}});
  ExpectRoundTrips(file);
  for (const std::string_view pattern :
       {PatternText(KnownPattern::kLlama3), std::string_view(kO200k)}) {
    file["pre_tokenizer"] = SplitThenBytes(pattern);
    ExpectRoundTrips(file);
  }
}

TEST(HostileTextTest, LongRunsThroughSentencePieceTokenizers) {
  ExpectRoundTrips(
      SentencePieceJson({"▁", "a", "é"}, {{"a", "a"}, {"aa", "aa"}, {"▁", "▁"}, {"▁", "a"}}));
}

TEST(HostileTextTest, LongRunsThroughUnigramTokenizers) {
  testing::Pieces pieces = {{"▁", -1}, {"a", -2}, {"aa", -3}, {"aaaaaaa", -4}, {"é", -5}};
  for (int byte = 0; byte < 256; ++byte) {
    pieces.emplace_back(ByteToken(static_cast<uint8_t>(byte)), -20);
  }
  json file = UnigramJson(pieces);
  file["model"]["byte_fallback"] = true;
  file["decoder"] = {{"type", "ByteFallback"}};
  ExpectRoundTrips(file);
}

TEST(HostileTextTest, LongRunsThroughNormalForms) {
  for (const char* form : {"NFC", "NFKD"}) {
    json file = ByteLevelJson({});
    file["normalizer"] = {{"type", form}};
    const auto tokenizer = Make(file);
    for (const std::string& run : Runs()) {
      RunOnSmallStack([&] { EXPECT_TRUE(tokenizer->Encode(run).ok()); });
    }
  }
}

// Steps stay in proportion to the text, for every run and for twice and four times its length.
void ExpectLinear(const std::function<size_t(std::string_view text)>& steps_of,
                  size_t max_steps_per_byte) {
  for (const std::string& run : Runs()) {
    for (const size_t size : {kRunBytes / 4, kRunBytes / 2, kRunBytes}) {
      // Behind a run that ends in something else, patterns have to step back.
      for (const std::string_view tail : {"", "a", "\n", "!", "<"}) {
        std::string text = run.substr(0, size);
        text.resize(FindInvalidUtf8(text).value_or(text.size()));
        text.append(tail);
        ASSERT_LE(steps_of(text), max_steps_per_byte * text.size())
            << size << " bytes of " << run.substr(0, 12) << " and " << tail;
      }
    }
  }
}

TEST(HostileTextTest, KnownPatternsLookAtEachByteAFewTimes) {
  for (const KnownPattern pattern :
       {KnownPattern::kGpt2, KnownPattern::kLlama3, KnownPattern::kQwen2}) {
    ExpectLinear(
        [&](std::string_view text) {
          size_t num_steps = 0;
          const auto count = [&](const Span&) {
            ++num_steps;
            return absl::OkStatus();
          };
          EXPECT_TRUE(FindKnownPattern(pattern, text, count, &num_steps).ok());
          return num_steps;
        },
        4);
  }
}

TEST(HostileTextTest, AddedTokensLookAtEachByteAsOftenAsTheirLength) {
  Vocabulary vocabulary;
  json tokens = json::array();
  for (const char* content : {"aaaaaaa!", "a<", "<e>", "\n", "\n\n", " ", "<e><e><e>!"}) {
    tokens.push_back({{"id", tokens.size()},
                      {"content", content},
                      {"normalized", false},
                      {"lstrip", true},
                      {"rstrip", true}});
  }
  absl::StatusOr<AddedTokens> added = AddedTokens::Parse(tokens, &vocabulary);
  ASSERT_TRUE(added.ok()) << added.status();
  ASSERT_TRUE(added->Index(Normalizer()).ok());
  ExpectLinear(
      [&](std::string_view text) {
        size_t num_steps = 0;
        const auto count = [&](const AddedSpan&) {
          ++num_steps;
          return absl::OkStatus();
        };
        EXPECT_TRUE(added->raw().Split(text, {}, count, &num_steps).ok());
        return num_steps;
      },
      14);
}

TEST(HostileFileTest, EveryPrefixIsRefused) {
  const std::string text = SentencePieceJson({"▁", "a"}, {{"▁", "a"}}).dump();
  for (size_t size = 0; size < text.size(); size += 1 + size / 500) {
    const absl::Status status = Tokenizer::FromJson(text.substr(0, size)).status();
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << size;
  }
}

TEST(HostileFileTest, ChangedBytesNeverCrash) {
  const std::string text = SentencePieceJson({"▁", "a"}, {{"▁", "a"}}).dump();
  std::mt19937 random(1);
  size_t num_loaded = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string changed = text;
    for (int i = 0; i < 2; ++i) changed[random() % changed.size()] = static_cast<char>(random());
    const auto tokenizer = Tokenizer::FromJson(changed);
    if (!tokenizer.ok()) continue;
    ++num_loaded;
    const auto ids = (*tokenizer)->Encode("a é <unk>");
    if (ids.ok()) (*tokenizer)->Decode(*ids, true);
  }
  EXPECT_GT(num_loaded, 0u);
}

TEST(HostileFileTest, ChangedValuesNeverCrash) {
  json file = ByteLevelJson({{"a", "b"}});
  file["pre_tokenizer"] = SplitThenBytes("a|b");
  file["normalizer"] =
      json::parse(R"({"type": "Replace", "pattern": {"String": "x"}, "content": "y"})");
  file["post_processor"] =
      json::parse(R"({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}]})");
  testing::AddToken(&file, "<e>", {{"special", true}});
  const json values[] = {
      nullptr, true, -1, 1.5, "", "x", json::array(), json::object(), {{"type", "Sequence"}}};
  const json flat = file.flatten();
  for (const auto& [path, unused] : flat.items()) {
    const bool is_byte_of_vocab = path.rfind("/model/vocab/", 0) == 0 && path != "/model/vocab/a";
    if (is_byte_of_vocab) continue;  // one of 256 alike is enough
    for (json::json_pointer pointer(path); !pointer.empty(); pointer = pointer.parent_pointer()) {
      for (const json& value : values) {
        json changed = file;
        changed[pointer] = value;
        const auto tokenizer = Tokenizer::FromJson(changed.dump());
        if (!tokenizer.ok()) continue;
        EXPECT_TRUE((*tokenizer)->Encode("ab <e>").ok()) << pointer << " = " << value;
      }
    }
  }
}

TEST(HostileFileTest, DeepNestingIsRefused) {
  for (const std::string_view open : {"[", "{\"a\":", "{\"type\":\"Sequence\",\"normalizers\":["}) {
    std::string text = "{\"normalizer\":";
    for (int i = 0; i < 100000; ++i) text.append(open);
    RunOnSmallStack([&] {
      const absl::Status status = Tokenizer::FromJson(text).status();
      EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("nested more than"));
    });
  }
}

TEST(HostileFileTest, OtherThingsThanAnObject) {
  for (const char* text : {"", " ", "null", "1", "[]", "\"x\"", "{}", "{\"model\":{}}",
                           "{\"model\":[]}", "nul", "{} {}", "\xFF", "{\"a\":\"\xFF\"}"}) {
    EXPECT_FALSE(Tokenizer::FromJson(text).ok()) << text;
  }
}

}  // namespace
}  // namespace quire

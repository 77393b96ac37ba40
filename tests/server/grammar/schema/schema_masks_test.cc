// Masks of JSON schemas, beside each token's bytes through a parser: over the vocabulary of the
// bundled model, with long tokens beside it, which reach past counts and ends of strings.
#include <gtest/gtest.h>

#include <random>

#include "server/grammar/match/token_matcher.h"
#include "server/text/tokenizer/tokenizer.h"
#include "tests/server/grammar/schema/compiled_schema.h"

namespace quire {
namespace {

constexpr uint32_t kSeed = 20261129;
constexpr int kWalks = 4, kMaxTokens = 40;

const std::vector<std::string>& Tokens() {
  static const auto* const tokens = [] {
    auto* const all = new std::vector<std::string>;
    const auto tokenizer = Tokenizer::Load("configs/demo");
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    for (TokenId id = 0; tokenizer.ok() && id < (*tokenizer)->vocab_size(); ++id)
      all->push_back((*tokenizer)->IsSpecial(id) ? "" : (*tokenizer)->TokenBytes(id));
    for (const std::string& text : {std::string("a"), std::string(" "), std::string("9"),
                                    std::string("é"), std::string("\\n"), std::string("[")}) {
      std::string token = text;
      for (int i = 1; i < 60; ++i, token += text) all->push_back(token);
    }
    for (const char* const token :
         {"\",", "\": ", "\"}", "\"]}", "a\", \"b", "aaaa\"", "aaaaaaaaaaaa\"}", "\": 12", "}}]",
          "1, 2, 3", "[\"a\", \"a\", \"a\"]", "{\"a\": 1}", "null}", "true, false", "\n\n", "\"\""})
      all->push_back(token);
    return all;
  }();
  return *tokens;
}

class Walker {
 public:
  explicit Walker(const CompiledSchema& schema,
                  const std::shared_ptr<const ConstraintVocabulary>& vocabulary)
      : matcher_(vocabulary, schema.shared_automaton()),
        parser_(&schema.automaton()),
        position_(parser_.start()),
        mask_((Tokens().size() + 31) / 32) {}

  // Compares the mask, and returns the tokens in it.
  std::vector<TokenId> Check() {
    matcher_.FillMask(absl::MakeSpan(mask_));
    std::vector<TokenId> allowed;
    for (TokenId id = 0; static_cast<size_t>(id) < Tokens().size(); ++id) {
      const bool is_set = (mask_[static_cast<size_t>(id) / 32] >> (id % 32)) & 1;
      const std::string& token = Tokens()[static_cast<size_t>(id)];
      if (token.empty()) {
        EXPECT_FALSE(is_set) << id;
        continue;
      }
      const bool is_allowed = !After(token).is_dead();
      EXPECT_EQ(is_set, is_allowed) << testing::PrintToString(token) << " after " << text_;
      if (is_allowed) allowed.push_back(id);
    }
    return allowed;
  }

  void Take(TokenId id) {
    EXPECT_EQ(
        matcher_.CountAccepted({id, id}),
        1u +
            !After(Tokens()[static_cast<size_t>(id)] + Tokens()[static_cast<size_t>(id)]).is_dead())
        << text_;
    EXPECT_TRUE(matcher_.Accept(id)) << text_;
    text_ += Tokens()[static_cast<size_t>(id)];
    position_ = After(Tokens()[static_cast<size_t>(id)]);
    EXPECT_EQ(matcher_.is_complete(), position_.is_complete) << text_;
  }

 private:
  Parser::Position After(const std::string& token) {
    Parser::Position position = position_;
    for (const char c : token) {
      position = parser_.Next(position, static_cast<uint8_t>(c));
      if (position.is_dead()) break;
    }
    return position;
  }

  TokenMatcher matcher_;
  Parser parser_;
  Parser::Position position_;
  std::vector<uint32_t> mask_;
  std::string text_;
};

TEST(SchemaMasksTest, AreThoseOfEachTokensBytes) {
  const std::string_view schemas[] = {
      "true",
      R"({"type": "string"})",
      R"({"type": "string", "maxLength": 3})",
      R"({"type": "string", "minLength": 5, "maxLength": 25})",
      R"({"type": "array", "items": {"type": "string", "minLength": 10}})",
      R"({"type": "array", "items": {"type": "string", "maxLength": 50}, "maxItems": 3})",
      R"({"type": "string", "pattern": "^a{3,20}b?$"})",
      R"({"type": "array", "items": {"pattern": "^[a-c ]{0,30}$", "type": "string"}})",
      R"({"type": "array", "items": {"pattern": "a", "type": "string", "maxLength": 12}})",
      R"({"type": "array", "items": {"type": "integer", "minimum": 9, "maximum": 9999}})",
      R"({"type": "array", "items": {"type": "number", "multipleOf": 0.25}})",
      R"({"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 40})",
      R"({"properties": {"a": {"type": "integer"}, "aa": {"type": "string"}, "aaaa": {"type": "boolean"}},
          "type": "object", "additionalProperties": {"type": "null"}})",
      R"({"properties": {"a": {"type": "integer"}, "b": {"enum": ["aaaa", "aaab", "é", "aa\naa"]}},
          "type": "object", "additionalProperties": false, "minProperties": 1})",
      R"({"type": "object", "patternProperties": {"^a{2,9}$": {"const": 1}}, "additionalProperties": {"const": 9},
          "maxProperties": 2})",
      R"({"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}, "maxItems": 4}}})",
      R"({"oneOf": [{"type": "array", "items": {"maxLength": 4, "type": "string"}, "minItems": 1},
                    {"type": "array", "items": {"minLength": 8, "type": "string"}, "minItems": 1}]})",
      R"({"not": {"type": ["string", "number"]}})",
      R"({"type": "string", "format": "uri", "maxLength": 40})"};
  const auto vocabulary =
      std::make_shared<ConstraintVocabulary>(Tokens(), std::vector<TokenId>{}, size_t{4} << 20);
  std::mt19937 random(kSeed);
  for (const std::string_view schema : schemas) {
    SCOPED_TRACE(schema);
    const auto compiled = CompiledSchema::Create(schema);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    for (int walk = 0; walk < kWalks; ++walk) {
      Walker walker(*compiled, vocabulary);
      for (int i = 0; i < kMaxTokens; ++i) {
        const std::vector<TokenId> allowed = walker.Check();
        if (allowed.empty() || HasFailure()) break;
        // Also short tokens: there are far more long ones.
        TokenId taken = allowed[random() % allowed.size()];
        for (int tries = 0; tries < 4 && Tokens()[static_cast<size_t>(taken)].size() > 4; ++tries)
          taken = allowed[random() % allowed.size()];
        walker.Take(taken);
      }
      ASSERT_FALSE(HasFailure()) << "seed " << kSeed;
    }
  }
}

}  // namespace
}  // namespace quire

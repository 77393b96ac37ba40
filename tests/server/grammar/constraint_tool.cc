// Constraints for tests in other languages. usage: constraint_tool [MODEL_FOLDER]
// Each line on standard input is a JSON object, each answer one on standard output. The first three
// begin anew with another constraint, whose answer has "error" if it is refused:
//   {"schema": TEXT}      -> {}   a JSON schema, as text; with "compact": true, without white space
//   {"regex": TEXT}       -> {}   a regular expression that the whole text matches
//   {"restart": true}     -> {}   the same constraint, before the first token
//   {"text": TEXT}        -> {"valid": BOOL, "length": N}   of the whole text, byte by byte; N
//   bytes
//                            may begin one
//   {"sample": SEED}      -> {"text": TEXT}   a text at random, or null if none was found
// With a model's folder, which has the tokenizer:
//   {"mask": true}        -> {"mask": HEX}   a digit for four tokens, the lowest bit first
//   {"accept": ID}        -> {"accepted": BOOL}
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "server/grammar/match/token_matcher.h"
#include "server/grammar/regex/regex_expr.h"
#include "server/grammar/schema/schema_grammar.h"
#include "server/text/json_tree.h"
#include "server/text/tokenizer/tokenizer.h"

namespace quire {
namespace {

using nlohmann::json;

constexpr size_t kMaxCacheBytes = size_t{128} << 20;
constexpr size_t kLongSampleBytes = 40, kMaxSampleBytes = 300;

class Tool {
 public:
  explicit Tool(const std::shared_ptr<const Tokenizer>& tokenizer) {
    std::vector<std::string> tokens;
    std::vector<TokenId> ends;
    if (tokenizer != nullptr) {
      for (TokenId id = 0; id < tokenizer->vocab_size(); ++id)
        tokens.push_back(tokenizer->IsSpecial(id) ? "" : tokenizer->TokenBytes(id));
      if (tokenizer->eos_id()) ends.push_back(*tokenizer->eos_id());
    }
    vocabulary_ = std::make_shared<ConstraintVocabulary>(tokens, ends, kMaxCacheBytes);
    num_words_ = (tokens.size() + 31) / 32;
  }

  json Answer(const json& asked) {
    if (asked.contains("schema"))
      return Begin(SchemaRule(asked["schema"], asked.value("compact", false)));
    if (asked.contains("regex")) {
      grammar_ = std::make_unique<Grammar>();
      grammar_->AddRule();
      return Begin(RegexExpr(&grammar_->store, asked["regex"].get<std::string>(), {.whole = true}));
    }
    if (automaton_ == nullptr) return {{"error", "there is no constraint yet"}};
    if (asked.contains("restart")) {
      matcher_.emplace(vocabulary_, automaton_);
      return json::object();
    }
    if (asked.contains("text")) return Judge(asked["text"].get<std::string>());
    if (asked.contains("sample")) return {{"text", Sample(asked["sample"].get<uint32_t>())}};
    if (asked.contains("accept"))
      return {{"accepted", matcher_->Accept(asked["accept"].get<TokenId>())}};
    if (asked.contains("mask")) return {{"mask", Mask()}};
    return {{"error", "an unknown command"}};
  }

 private:
  absl::StatusOr<ExprId> SchemaRule(const std::string& text, bool is_compact) {
    size_t num_values_left = kMaxJsonValues;
    const absl::StatusOr<JsonTree> schema = ParseJsonTree(text, &num_values_left);
    if (!schema.ok()) return schema.status();
    grammar_ = std::make_unique<Grammar>();
    grammar_->AddRule();
    const absl::StatusOr<RuleId> rule =
        AddJsonSchema(grammar_.get(), *schema, {.has_white_space = !is_compact, .limits = {}});
    if (!rule.ok()) return rule.status();
    return grammar_->store.Rule(*rule);
  }

  json Begin(const absl::StatusOr<ExprId>& root) {
    matcher_.reset();
    automaton_ = nullptr;
    if (!root.ok()) return {{"error", std::string(root.status().message())}};
    grammar_->rules[0] = *root;
    automaton_ = std::make_shared<const Automaton>(std::move(grammar_), AutomatonLimits());
    if (!automaton_->ok()) return {{"error", std::string(automaton_->status().message())}};
    if (automaton_->StartOf(0).is_dead()) return {{"error", "nothing is valid"}};
    matcher_.emplace(vocabulary_, automaton_);
    return json::object();
  }

  json Judge(const std::string& text) const {
    Parser parser(automaton_.get());
    Parser::Position position = parser.start();
    size_t length = 0;
    while (length < text.size() && !position.is_dead()) {
      position = parser.Next(position, static_cast<uint8_t>(text[length]));
      if (!position.is_dead()) ++length;
    }
    if (parser.gave_up()) return {{"error", "gave up"}};
    return {{"valid", length == text.size() && position.is_complete}, {"length", length}};
  }

  // Letters and digits of few kinds, so that texts are often equal to others, and signs that end
  // something, once the text is long.
  json Sample(uint32_t seed) const {
    std::mt19937 random(seed);
    Parser parser(automaton_.get());
    Parser::Position position = parser.start();
    std::string text;
    while (text.size() < kMaxSampleBytes) {
      if (position.is_complete && (position.items_begin == position.items_end || random() % 4 == 0))
        return text;
      std::string allowed, preferred;
      for (int byte = 0x20; byte < 0x7f; ++byte) {
        if (parser.Next(position, static_cast<uint8_t>(byte)).is_dead()) continue;
        allowed += static_cast<char>(byte);
        const std::string_view likely =
            text.size() > kLongSampleBytes ? "\"]}0123456789elnrstua" : "abc\"]}[{,: 0123.-tfn";
        if (likely.find(static_cast<char>(byte)) != std::string_view::npos)
          preferred += static_cast<char>(byte);
      }
      if (allowed.empty() || parser.gave_up()) return nullptr;
      const std::string& from = preferred.empty() || random() % 50 == 0 ? allowed : preferred;
      const char byte = from[random() % from.size()];
      position = parser.Next(position, static_cast<uint8_t>(byte));
      text += byte;
    }
    return nullptr;
  }

  std::string Mask() {
    std::vector<uint32_t> mask(num_words_);
    matcher_->FillMask(absl::MakeSpan(mask));
    std::string hex;
    for (const uint32_t word : mask) {
      for (int shift = 0; shift < 32; shift += 4) hex += "0123456789abcdef"[(word >> shift) & 15];
    }
    return hex;
  }

  std::shared_ptr<ConstraintVocabulary> vocabulary_;
  size_t num_words_ = 0;
  std::unique_ptr<Grammar> grammar_;
  std::shared_ptr<const Automaton> automaton_;
  std::optional<TokenMatcher> matcher_;
};

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  std::shared_ptr<const quire::Tokenizer> tokenizer;
  if (argc > 1) {
    auto loaded = quire::Tokenizer::Load(argv[1]);
    if (!loaded.ok()) {
      std::cerr << loaded.status() << "\n";
      return 66;
    }
    tokenizer = *std::move(loaded);
  }
  quire::Tool tool(tokenizer);
  for (std::string line; std::getline(std::cin, line);) {
    const nlohmann::json asked = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const nlohmann::json answer =
        asked.is_object() ? tool.Answer(asked) : nlohmann::json{{"error", "no JSON object"}};
    std::cout << answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n"
              << std::flush;
  }
  return 0;
}

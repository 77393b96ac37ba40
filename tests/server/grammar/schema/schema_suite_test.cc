// JSON-Schema-Test-Suite and real schemas, as far as their files are at hand: no invalid instance
// is accepted, and no keyword gets worse than ratchet.json says. The files are in the folder
// QUIRE_SCHEMAS, or else in shared/schemas beside the repository. QUIRE_WRITE_RATCHET=FILE writes
// what the ratchet would be now.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/grammar/schema/decimal.h"
#include "tests/server/grammar/schema/compiled_schema.h"
#include "tests/server/grammar/schema/json_layout.h"

namespace quire {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kRatchet[] = "tests/server/grammar/schema/ratchet.json";
constexpr size_t kMaxTexts = 5'040;

std::filesystem::path SchemaFile(const std::string& name) {
  const char* const folder = std::getenv("QUIRE_SCHEMAS");
  return std::filesystem::path(folder != nullptr ? folder : "../shared/schemas") / name;
}

// The values of a .jsonl file; none if it is not there.
std::vector<JsonTree> ReadLines(const std::string& name) {
  std::vector<JsonTree> lines;
  std::ifstream file(SchemaFile(name));
  for (std::string line; std::getline(file, line);) {
    size_t num_values_left = size_t{1} << 22;
    absl::StatusOr<JsonTree> tree = ParseJsonTree(line, &num_values_left, 500);
    if (tree.ok()) {
      lines.push_back(*std::move(tree));
    } else {
      ADD_FAILURE() << name << ": " << tree.status();
    }
  }
  return lines;
}

const JsonTree& At(const JsonTree& object, absl::string_view key) {
  for (size_t i = 0; i < object.keys.size(); ++i) {
    if (object.keys[i] == key) return object.items[i];
  }
  ADD_FAILURE() << "no member " << key;
  static const auto* const none = new JsonTree();
  return *none;
}

// An error without what differs from schema to schema.
std::string ReasonOf(const absl::Status& status) {
  std::string reason(status.message());
  if (absl::StartsWith(reason, "#"))
    reason = reason.substr(std::min(reason.size(), reason.find(": ") + 2));
  if (const size_t quote = reason.find('"'); quote != std::string::npos) {
    const size_t end = reason.rfind('"');
    reason.replace(quote, end + 1 - quote, "...");
  }
  return reason;
}

absl::StatusOr<CompiledSchema> CompileSample(const JsonTree& schema) {
  absl::StatusOr<CompiledSchema> compiled = CompiledSchema::Create(schema);
  if (compiled.ok() && compiled->is_empty()) return absl::InvalidArgumentError("nothing is valid");
  return compiled;
}

// The value's texts with the members of its objects in each order, at most kMaxTexts of them; the
// order in which they stand first.
std::vector<std::string> TextsOf(const JsonTree& tree) {
  if (tree.items.empty()) return {WriteJson(tree)};
  std::vector<std::vector<std::string>> parts;
  for (const JsonTree& item : tree.items) parts.push_back(TextsOf(item));
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<std::string> texts;
  do {
    std::vector<std::string> begun = {tree.is_object() ? "{" : "["};
    for (size_t i = 0; i < order.size(); ++i) {
      std::vector<std::string> longer;
      const std::string name =
          tree.is_object() ? absl::StrCat(WriteText(tree.keys[order[i]]), ": ") : "";
      for (const std::string& text : begun) {
        for (const std::string& part : parts[order[i]]) {
          if (longer.size() + texts.size() < kMaxTexts)
            longer.push_back(absl::StrCat(text, i > 0 ? ", " : "", name, part));
        }
      }
      begun = std::move(longer);
    }
    for (const std::string& text : begun) texts.push_back(text + (tree.is_object() ? "}" : "]"));
  } while (tree.is_object() && texts.size() < kMaxTexts &&
           std::next_permutation(order.begin(), order.end()));
  return texts;
}

// With whole numbers written as such: not 1.0, which JSON Schema calls an integer.
JsonTree WithWholeNumbers(JsonTree tree) {
  for (JsonTree& item : tree.items) item = WithWholeNumbers(std::move(item));
  if (tree.kind != JsonTree::Kind::kFloat) return tree;
  if (const std::optional<Decimal> decimal = ParseDecimal(tree.text); decimal->is_integer())
    tree.text = ToText(*decimal);
  return tree;
}

bool AcceptsAny(const CompiledSchema& schema, const std::vector<std::string>& texts) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](const std::string& text) { return schema.Accepts(text); });
}

// The results of one keyword's file of the suite, or of all real schemas: numbers of tests, except
// `refused`, which are schemas by the reason.
struct Tally {
  std::map<std::string, int> counts;
  std::map<std::string, int> refused;
};

Json ToJson(const Tally& tally) {
  Json json = Json::object();
  for (const auto& [name, count] : tally.counts) json[name] = count;
  if (!tally.refused.empty()) json["refused"] = tally.refused;
  return json;
}

// QUIRE_SHOW_STOPPED=1: the valid instances that are not accepted.
void Show(const std::string& name, const JsonTree& schema, const std::string& text) {
  if (std::getenv("QUIRE_SHOW_STOPPED") == nullptr) return;
  std::printf("%s: %s stops %s\n", name.c_str(), WriteJson(schema).c_str(), text.c_str());
}

void JudgeSuite(const JsonTree& schema, const JsonTree& test, const CompiledSchema& compiled,
                const std::string& name, Tally* tally) {
  const JsonTree& instance = test.items[1];
  const std::vector<std::string> texts = TextsOf(instance);
  if (test.items[0].integer == 0) {
    for (const std::string& text : texts)
      EXPECT_FALSE(compiled.Accepts(text))
          << name << ": " << WriteJson(schema) << " accepts " << text;
    ++tally->counts["invalid stopped"];
  } else if (compiled.Accepts(texts[0])) {
    ++tally->counts["valid accepted"];
  } else if (AcceptsAny(compiled, texts)) {
    ++tally->counts["valid in another order"];
  } else if (AcceptsAny(compiled, TextsOf(WithWholeNumbers(instance)))) {
    ++tally->counts["valid with whole numbers"];
  } else {
    ++tally->counts["valid stopped"];
    Show(name, schema, texts[0]);
  }
}

// The suite says the draft by the folder.
JsonTree WithDraft(JsonTree schema, const std::string& draft) {
  if (draft == "draft7" && schema.is_object() && schema.Find("$schema") == nullptr)
    AddMember(&schema, "$schema", TextTree("http://json-schema.org/draft-07/schema#"));
  return schema;
}

std::map<std::string, Tally> RunSuite(const std::vector<JsonTree>& groups) {
  std::map<std::string, Tally> tallies;
  for (const JsonTree& group : groups) {
    Tally& tally = tallies[At(group, "file").text];
    const JsonTree schema = WithDraft(At(group, "schema"), At(group, "draft").text);
    const auto compiled = CompiledSchema::Create(schema);
    if (!compiled.ok()) {
      ++tally.refused[ReasonOf(compiled.status())];
      continue;
    }
    for (const JsonTree& test : At(group, "tests").items) {
      const std::string name = absl::StrCat(
          At(group, "file").text, ", ", At(group, "description").text, ", ", test.items[2].text);
      JudgeSuite(schema, test, *compiled, name, &tally);
    }
  }
  return tallies;
}

Tally RunSample(const std::vector<JsonTree>& lines) {
  Tally tally;
  for (const JsonTree& line : lines) {
    const auto compiled = CompileSample(At(line, "schema"));
    if (!compiled.ok()) {
      ++tally.refused[ReasonOf(compiled.status())];
      continue;
    }
    bool passes = true;
    for (const JsonTree& instance : At(line, "valid").items) {
      const bool is_accepted = compiled->Accepts(WriteJson(instance));
      passes = passes && is_accepted;
      if (!is_accepted) Show(At(line, "id").text, At(line, "schema"), WriteJson(instance));
      ++tally.counts[is_accepted ? "valid accepted" : "valid stopped"];
    }
    for (const JsonTree& instance : At(line, "invalid").items) {
      const std::string text = WriteJson(instance);
      const bool is_accepted = compiled->Accepts(text);
      EXPECT_FALSE(is_accepted) << At(line, "id").text << " accepts " << text;
      passes = passes && !is_accepted;
      ++tally.counts["invalid stopped"];
    }
    tally.counts["schemas that pass"] += passes;
  }
  return tally;
}

// More of these is better; of all other counts, fewer.
bool IsGood(const std::string& count) {
  return count == "valid accepted" || count == "invalid stopped" || count == "schemas that pass" ||
         count == "valid in another order" || count == "valid with whole numbers";
}

// Fails where `now` is worse than the ratchet's entry.
void Compare(const std::string& name, const Tally& now, const Json& ratchet) {
  ASSERT_TRUE(ratchet.is_object()) << "the ratchet has no entry for " << name;
  int good = 0, good_before = 0, bad = 0, bad_before = 0;
  for (const auto& [count, number] : now.counts) (IsGood(count) ? good : bad) += number;
  for (const auto& [count, number] : now.refused) bad += number;
  for (const auto& [count, number] : ratchet.items()) {
    if (number.is_number()) (IsGood(count) ? good_before : bad_before) += number.get<int>();
  }
  if (const auto refused = ratchet.find("refused"); refused != ratchet.end()) {
    for (const auto& number : *refused) bad_before += number.get<int>();
    for (const auto& [reason, number] : now.refused) {
      EXPECT_TRUE(refused->contains(reason)) << name << ": a new reason to refuse: " << reason;
    }
  } else {
    EXPECT_TRUE(now.refused.empty()) << name << ": " << ToJson(now);
  }
  EXPECT_GE(good, good_before) << name << " is worse than the ratchet: " << ToJson(now);
  EXPECT_LE(bad, bad_before) << name << " is worse than the ratchet: " << ToJson(now);
  if (good > good_before || bad < bad_before)
    std::printf("%s is better than the ratchet: %s\n", name.c_str(), ToJson(now).dump().c_str());
}

class SchemaSuiteTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::ifstream file(kRatchet);
    ratchet_ = new Json(Json::parse(file, nullptr, /*allow_exceptions=*/false));
    ASSERT_TRUE(ratchet_->is_object()) << kRatchet;
    written_ = new Json(Json::object());
  }
  static void TearDownTestSuite() {
    if (const char* const path = std::getenv("QUIRE_WRITE_RATCHET"); path != nullptr)
      std::ofstream(path) << written_->dump(1) << "\n";
  }
  void Suite(const std::string& name) {
    const std::vector<JsonTree> groups = ReadLines(name + ".jsonl");
    if (groups.empty()) GTEST_SKIP() << "there is no file " << SchemaFile(name + ".jsonl");
    for (const auto& [file, tally] : RunSuite(groups)) {
      (*written_)[name][file] = ToJson(tally);
      Compare(absl::StrCat(name, " ", file), tally,
              ratchet_->value(name, Json::object()).value(file, Json()));
    }
  }

  static Json *ratchet_, *written_;
};

Json* SchemaSuiteTest::ratchet_ = nullptr;
Json* SchemaSuiteTest::written_ = nullptr;

TEST_F(SchemaSuiteTest, Draft7) { Suite("suite-draft7"); }

TEST_F(SchemaSuiteTest, Draft2020) { Suite("suite-draft2020-12"); }

TEST_F(SchemaSuiteTest, RealSchemas) {
  const std::vector<JsonTree> lines = ReadLines("sample.jsonl");
  if (lines.empty()) GTEST_SKIP() << "there is no file " << SchemaFile("sample.jsonl");
  const Tally tally = RunSample(lines);
  (*written_)["sample"] = ToJson(tally);
  Compare("sample", tally, ratchet_->value("sample", Json()));
}

}  // namespace
}  // namespace quire

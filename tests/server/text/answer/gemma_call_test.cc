// Arguments of any kind, spelled as Gemma 4's chat template spells them, come out as the JSON that
// they were.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/server/text/answer/answer_samples.h"

namespace quire {
namespace {

using Json = nlohmann::ordered_json;

std::string Spelled(const Json& value) {
  std::string spelled;
  const auto add = [&spelled](const std::string& item) {
    absl::StrAppend(&spelled, spelled.size() > 1 ? "," : "", item);
  };
  if (value.is_string()) return absl::StrCat("<|\"|>", value.get<std::string>(), "<|\"|>");
  if (value.is_object()) {
    spelled = "{";
    for (const auto& [key, item] : value.items()) add(absl::StrCat(key, ":", Spelled(item)));
    return spelled + "}";
  }
  if (!value.is_array()) return value.dump();
  spelled = "[";
  for (const Json& item : value) add(Spelled(item));
  return spelled + "]";
}

class RandomJson {
 public:
  explicit RandomJson(uint32_t seed) : random_(seed) {}

  size_t Below(size_t limit) { return random_() % limit; }

  Json Object(int depth) {
    static constexpr const char* kKeys[] = {"city", "x y",  "日本",  "1",   "@type", "a\"b\\",
                                            "$ref", "call", "a-b.c", "<b>", "it's"};
    Json object = Json::object();
    for (size_t i = Below(4); i > 0; --i) {
      object[kKeys[Below(std::size(kKeys))]] = Value(depth - 1);
    }
    return object;
  }

 private:
  Json Value(int depth) {
    switch (Below(depth > 0 ? 8 : 6)) {
      case 0:
        return nullptr;
      case 1:
        return Below(2) == 0;
      case 2:
        return static_cast<int64_t>(random_()) - (int64_t{1} << 31);
      case 3:
        return static_cast<double>(random_()) / 64;
      case 6:
        return Object(depth);
      case 7:
        return List(depth);
      default:
        return Text();
    }
  }

  Json List(int depth) {
    Json list = Json::array();
    for (size_t i = Below(4); i > 0; --i) list.push_back(Value(depth - 1));
    return list;
  }

  std::string Text() {
    static constexpr const char* kParts[] = {
        "a", " ", "\n", "\"", "\\", "\\n",          "'",       "{",    "}",   "]", ",", ":", "\t",
        "<", "|", "<|", "é",  "日", "<|tool_call>", "call:f{", "null", "true"};
    std::string text;
    for (size_t i = Below(6); i > 0; --i) text += kParts[Below(std::size(kParts))];
    return text;
  }

  std::mt19937 random_;
};

TEST(GemmaCallTest, ArgumentsAreWhatWasSpelled) {
  const AnswerOptions options = OptionsOf({.parser = "gemma4"});
  for (uint32_t seed = 0; seed < 5'000; ++seed) {
    RandomJson random(seed);
    const Json arguments[] = {random.Object(4), random.Object(2)};
    std::string text;
    for (const Json& one : arguments) {
      absl::StrAppend(&text, "<|tool_call>call:f", Spelled(one), "<tool_call|>");
    }
    AnswerParser parser(options, /*in_reasoning=*/false);
    std::vector<AnswerEvent> events;
    const size_t step = 1 + random.Below(20);
    for (size_t begin = 0; begin < text.size(); begin += step) {
      for (AnswerEvent& event : parser.Append(std::string_view(text).substr(begin, step))) {
        events.push_back(std::move(event));
      }
    }
    for (AnswerEvent& event : parser.Finish()) events.push_back(std::move(event));
    const std::vector<std::string> parsed = ArgumentsOf(events);
    ASSERT_EQ(parsed.size(), 2) << text << "\n" << Meaning(events);
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(Json::parse(parsed[i], nullptr, /*allow_exceptions=*/false), arguments[i]) << text;
    }
  }
}

}  // namespace
}  // namespace quire

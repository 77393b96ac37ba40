#include "tools/bench/quality/quality_items.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/json/parse_json.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/failure.h"
#include "tools/bench/json_values.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxTokens = int64_t{1} << 24;

// FNV-1a of a line, in whatever order its members are: the same on every machine.
std::string Fingerprint(const std::string& line) {
  using Sorted = nlohmann::json;
  const std::string text =
      ParseJson(line).dump(-1, ' ', /*ensure_ascii=*/false, Sorted::error_handler_t::replace);
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return absl::StrFormat("%016x", hash);
}

// One line; each function returns what is wrong with it, or nothing.
class LineReader {
 public:
  LineReader(const Json& json, const QualityFileOptions& options)
      : json_(json), options_(options) {}

  std::string Read(QualityItem* item) {
    if (!json_.is_object()) return "is no JSON object";
    item->task = Text("task").value_or("");
    if (json_.contains("choices")) return ReadChoice(item);
    if (json_.contains("text")) return ReadText(item);
    return ReadAnswer(item);
  }

 private:
  std::optional<std::string> Text(const char* key) const { return StringAt(json_, key); }

  // A text, or a list of texts.
  std::optional<std::vector<std::string>> Texts(const char* key) const {
    const Json& value = MemberOf(json_, key);
    if (value.is_null()) return std::vector<std::string>();
    if (value.is_string()) return std::vector<std::string>{value.get<std::string>()};
    if (!value.is_array()) return std::nullopt;
    std::vector<std::string> texts;
    for (const Json& one : value) {
      if (!one.is_string()) return std::nullopt;
      texts.push_back(one.get<std::string>());
    }
    return texts;
  }

  std::string ReadText(QualityItem* item) const {
    if (!options_.tells_likelihoods) return kNoLikelihoods;
    item->kind = QualityKind::kText;
    item->request.text = Text("text").value_or("");
    item->request.output_len = 1;
    return item->request.text.empty() ? "\"text\" is no text" : "";
  }

  std::string ReadChoice(QualityItem* item) const {
    if (!options_.tells_likelihoods) return kNoLikelihoods;
    item->kind = QualityKind::kChoice;
    item->request.text = Text("prompt").value_or("");
    item->request.output_len = 1;
    if (item->request.text.empty()) return "\"choices\" go with a \"prompt\"";
    auto choices = Texts("choices");
    if (!choices.has_value() || choices->size() < 2 ||
        std::count(choices->begin(), choices->end(), "") > 0) {
      return "\"choices\" is no list of two texts or more";
    }
    item->choices = *std::move(choices);
    if (const auto index = IntegerAt(json_, "answer"); index.has_value()) {
      if (*index < 0 || *index >= std::ssize(item->choices)) {
        return "\"answer\" is the number of no choice; the first is 0";
      }
      item->right_choice = static_cast<size_t>(*index);
      return "";
    }
    const auto right =
        std::find(item->choices.begin(), item->choices.end(), Text("answer").value_or(""));
    if (right == item->choices.end()) return "\"answer\" is none of the choices";
    item->right_choice = static_cast<size_t>(right - item->choices.begin());
    return "";
  }

  std::string ReadAnswer(QualityItem* item) const {
    WorkItem& request = item->request;
    if (const auto messages = json_.find("messages"); messages != json_.end()) {
      if (!options_.takes_messages) {
        return "\"messages\" go with --backend quire or openai-chat; --backend openai wants "
               "\"prompt\"";
      }
      if (!messages->is_array() || messages->empty()) return "\"messages\" is no list of messages";
      for (const Json& one : *messages) {
        request.messages.push_back({.role = StringAt(one, "role").value_or(""),
                                    .content = StringAt(one, "content").value_or("")});
        if (request.messages.back().role.empty()) return "a message has no \"role\"";
      }
    } else {
      request.text = Text("prompt").value_or("");
      if (request.text.empty()) return "has no \"prompt\", \"messages\" or \"text\"";
    }
    request.output_len = json_.contains("max_tokens") ? IntegerAt(json_, "max_tokens").value_or(0)
                                                      : options_.max_tokens;
    if (request.output_len < 1 || request.output_len > kMaxTokens) {
      return absl::StrCat("\"max_tokens\" is no number from 1 to ", kMaxTokens);
    }
    const auto stop = Texts("stop"), answer = Texts("answer"), answers = Texts("answers");
    if (!stop.has_value()) return "\"stop\" is no text or list of texts";
    request.stop = stop->empty() ? options_.stop : *stop;
    if (!answer.has_value() || !answers.has_value()) {
      return "\"answer\" is no text or list of texts";
    }
    item->answers = answer->empty() ? *answers : *answer;
    return "";
  }

  static constexpr char kNoLikelihoods[] =
      "asks how likely a text is, which chats do not tell; take --backend quire or openai";

  const Json& json_;
  const QualityFileOptions& options_;
};

std::string Normalise(std::string text, const MatchOptions& options) {
  if (options.ignore_case) absl::AsciiStrToLower(&text);
  if (options.ignore_punctuation) {
    std::erase_if(text, [](char c) { return absl::ascii_ispunct(static_cast<unsigned char>(c)); });
  }
  absl::StripAsciiWhitespace(&text);
  return text;
}

}  // namespace

absl::StatusOr<std::vector<QualityItem>> ReadQualityItems(const std::string& path,
                                                          const QualityFileOptions& options) {
  std::vector<QualityItem> items;
  int64_t num_items = 0;
  const auto take = [&](const std::string& text, int64_t line) {
    QualityItem item = {.line = line, .fingerprint = Fingerprint(text)};
    const Json json = ParseJson<Json>(text);
    std::string problem = LineReader(json, options).Read(&item);
    if (problem.empty() && num_items++ % options.every == 0) items.push_back(std::move(item));
    return problem;
  };
  RETURN_IF_ERROR(ReadLines("--dataset-path", path, take));
  if (items.empty()) return UsageError(absl::StrCat("--dataset-path: ", path, " has no lines"));
  return items;
}

bool IsRight(std::string text, const std::vector<std::string>& answers,
             const MatchOptions& options) {
  if (!options.answer_after.empty()) {
    const size_t last = text.rfind(options.answer_after);
    if (last == std::string::npos) return false;
    text.erase(0, last + options.answer_after.size());
  }
  const nlohmann::json value = ParseJson(text);  // whose members may be in any order
  text = Normalise(std::move(text), options);
  return std::any_of(answers.begin(), answers.end(), [&](const std::string& answer) {
    const nlohmann::json wanted = ParseJson(answer);
    if (wanted.is_structured()) return value == wanted;
    return text == Normalise(answer, options);
  });
}

}  // namespace quire::bench

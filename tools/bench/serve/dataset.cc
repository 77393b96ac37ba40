#include "tools/bench/serve/dataset.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/failure.h"

namespace quire::bench {

namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxLength = int64_t{1} << 24;
// Every vocabulary has as many, and not every server tells its own: so the same seed makes the same
// prompts whatever is asked.
constexpr int64_t kVocabulary = 1000;
// Of English text; a server's own count is in its answer.
constexpr size_t kCharactersPerToken = 4;
// Most tokenizers have one token for each, with the space before it.
constexpr const char* kWords[] = {
    "the",   "of",    "and", "to",   "in",   "is",     "that", "for", "it",   "as",    "was",
    "with",  "be",    "by",  "on",   "not",  "he",     "this", "are", "or",   "his",   "from",
    "at",    "which", "but", "have", "an",   "had",    "they", "you", "were", "their", "one",
    "all",   "we",    "can", "her",  "has",  "there",  "been", "if",  "more", "when",  "will",
    "would", "who",   "so",  "no",   "time", "people", "way",  "day", "man",  "thing", "work"};

// Words in place of as many tokens. Prefixes that were shared still are.
void TurnIntoText(uint64_t seed, std::vector<WorkItem>* items) {
  for (WorkItem& item : *items) {
    std::string text;
    for (const int32_t id : item.prompt) {
      const size_t word = (static_cast<size_t>(id) ^ seed) % std::size(kWords);
      absl::StrAppend(&text, text.empty() ? "" : " ", kWords[word]);
    }
    item.prompt.clear();
    item.text = std::move(text);
  }
}

std::vector<WorkItem> RepeatPrefixes(const DatasetFlags& flags, int64_t vocab_size) {
  std::mt19937_64 random(flags.random.seed);
  std::uniform_int_distribution<int32_t> token(
      0, static_cast<int32_t>(std::min<int64_t>(vocab_size, 10000)) - 1);
  std::vector<std::vector<int32_t>> prefixes(flags.num_prefixes);
  for (auto& prefix : prefixes) {
    prefix.resize(flags.prefix_len);
    for (int32_t& id : prefix) id = token(random);
  }
  std::vector<WorkItem> items;
  for (int64_t i = 0; i < flags.random.num_prompts; ++i) {
    WorkItem item = {.prompt = prefixes[i % flags.num_prefixes],
                     .output_len = flags.prefix_output_len};
    for (int64_t j = 0; j < flags.suffix_len; ++j) item.prompt.push_back(token(random));
    items.push_back(std::move(item));
  }
  std::shuffle(items.begin(), items.end(), random);
  return items;
}

absl::Status BadFile(const DatasetFlags& flags, absl::string_view what) {
  return UsageError(absl::StrCat("--dataset-path: ", flags.path, " ", what));
}

int64_t EstimatedTokens(const std::string& text) {
  return static_cast<int64_t>(std::max<size_t>(1, text.size() / kCharactersPerToken));
}

// A JSON list of {"conversations": [{"value": TEXT}, ...]}: the first two of each are a question
// and its answer.
absl::StatusOr<std::vector<WorkItem>> ReadShareGpt(const DatasetFlags& flags) {
  std::ifstream file(flags.path);
  if (!file) return BadFile(flags, "cannot be read");
  const Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) return BadFile(flags, "is no JSON list of conversations");
  std::vector<WorkItem> items;
  for (const Json& one : json) {
    const Json turns = one.is_object() ? one.value("conversations", Json()) : Json();
    if (!turns.is_array() || turns.size() < 2) continue;
    const Json question = turns[0].is_object() ? turns[0].value("value", Json()) : Json();
    const Json answer = turns[1].is_object() ? turns[1].value("value", Json()) : Json();
    if (!question.is_string() || !answer.is_string()) continue;
    auto text = question.get<std::string>();
    if (text.empty()) continue;
    const int64_t output_len = flags.file_output_len > 0
                                   ? flags.file_output_len
                                   : EstimatedTokens(answer.get<std::string>());
    items.push_back({.prompt = {}, .text = std::move(text), .output_len = output_len});
  }
  if (items.empty()) return BadFile(flags, "has no conversation with a question and an answer");
  return items;
}

// JSON lines of {"prompt": TEXT, "output_tokens": N}; the latter may be missing.
absl::StatusOr<std::vector<WorkItem>> ReadCustom(const DatasetFlags& flags) {
  constexpr int64_t kUsualOutput = 256;  // vLLM's
  std::ifstream file(flags.path);
  if (!file) return BadFile(flags, "cannot be read");
  std::vector<WorkItem> items;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    const Json prompt = json.is_object() ? json.value("prompt", Json()) : Json();
    if (!prompt.is_string() || prompt.get<std::string>().empty()) {
      return BadFile(flags, absl::StrCat("line ", number, R"(: expected {"prompt": "TEXT"})"));
    }
    const Json length = json.value("output_tokens", Json(kUsualOutput));
    if (!length.is_number_integer() || length < 1 || length > kMaxLength) {
      return BadFile(flags, absl::StrCat("line ", number, ": output_tokens is no number from 1 to ",
                                         kMaxLength));
    }
    items.push_back(
        {.prompt = {},
         .text = prompt.get<std::string>(),
         .output_len = flags.file_output_len > 0 ? flags.file_output_len : length.get<int64_t>()});
  }
  if (items.empty()) return BadFile(flags, "has no prompts");
  return items;
}

// As many as are wanted, in an order of the seed; again from the beginning if there are fewer.
std::vector<WorkItem> Sample(std::vector<WorkItem> all, const WorkloadFlags& flags) {
  std::mt19937_64 random(flags.seed);
  std::shuffle(all.begin(), all.end(), random);
  std::vector<WorkItem> items;
  items.reserve(flags.num_prompts);
  for (int64_t i = 0; i < flags.num_prompts; ++i) items.push_back(all[i % all.size()]);
  return items;
}

bool IsFile(const DatasetFlags& flags) {
  return flags.name == "sharegpt" || flags.name == "custom";
}

absl::Status CheckLengths(const std::vector<WorkItem>& items, int64_t max_model_len) {
  for (const WorkItem& item : items) {
    const auto length = static_cast<int64_t>(item.prompt.size()) + item.output_len;
    if (max_model_len > 0 && length > max_model_len) {
      return UsageError(absl::StrCat("a request of ", item.prompt.size(), " + ", item.output_len,
                                     " tokens does not fit the context of ", max_model_len,
                                     " tokens; ask for shorter ones"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddDatasetFlags(CLI::App& command, DatasetFlags* flags) {
  const std::string group = "Workload";
  command.add_option("--dataset-name", flags->name, "Where prompts come from")
      ->check(CLI::IsMember({"random", "prefix_repetition", "sharegpt", "custom"}))
      ->capture_default_str()
      ->group(group);
  command
      .add_option(
          "--dataset-path", flags->path,
          "sharegpt: a JSON file of conversations; custom: JSON lines of {\"prompt\": TEXT, "
          "\"output_tokens\": N}")
      ->type_name("FILE")
      ->group(group);
  AddWorkloadFlags(command, &flags->random);
  const auto add = [&](const std::string& flag, int64_t* value, int64_t min,
                       const std::string& help) {
    command.add_option(flag, *value, help)
        ->check(CLI::Range(min, kMaxLength))
        ->type_name("N")
        ->group(group);
  };
  add("--sharegpt-output-len,--custom-output-len", &flags->file_output_len, 1,
      "Generated tokens of each prompt of a file (default: as the file says)");
  add("--prefix-repetition-num-prefixes", &flags->num_prefixes, 1,
      "Of prefix_repetition (default: 10)");
  add("--prefix-repetition-prefix-len", &flags->prefix_len, 1, "Tokens (default: 256)");
  add("--prefix-repetition-suffix-len", &flags->suffix_len, 1, "Tokens (default: 256)");
  add("--prefix-repetition-output-len", &flags->prefix_output_len, 1, "Tokens (default: 128)");
  command
      .add_flag(
          "--text-prompts", flags->text,
          "Random prompts are words, about one for each token: for servers that take no token "
          "ids")
      ->group(group);
}

absl::Status CheckDatasetFlags(const DatasetFlags& flags) {
  if (IsFile(flags) != flags.path.empty()) return absl::OkStatus();
  return UsageError(
      IsFile(flags)
          ? absl::StrCat("--dataset-path is missing: where is ", flags.name, "'s file?")
          : absl::StrCat("--dataset-path goes with sharegpt and custom, not with ", flags.name));
}

absl::StatusOr<std::vector<WorkItem>> MakeDataset(const DatasetFlags& flags, int64_t vocab_size,
                                                  int64_t max_model_len) {
  RETURN_IF_ERROR(CheckDatasetFlags(flags));
  if (IsFile(flags)) {
    ASSIGN_OR_RETURN(std::vector<WorkItem> all,
                     flags.name == "sharegpt" ? ReadShareGpt(flags) : ReadCustom(flags));
    return Sample(std::move(all), flags.random);
  }
  vocab_size = vocab_size == 0 ? kVocabulary : std::min(vocab_size, kVocabulary);
  std::vector<WorkItem> items;
  if (flags.name == "prefix_repetition") {
    items = RepeatPrefixes(flags, vocab_size);
    RETURN_IF_ERROR(CheckLengths(items, max_model_len));
  } else {
    if (max_model_len == 0) max_model_len = std::numeric_limits<int64_t>::max();
    ASSIGN_OR_RETURN(items, MakeWorkload(flags.random, vocab_size, max_model_len));
  }
  if (flags.text) TurnIntoText(flags.random.seed, &items);
  return items;
}

std::string DatasetText(const DatasetFlags& flags, const std::vector<WorkItem>& items) {
  if (flags.name == "random") return WorkloadText(flags.random, items);
  if (flags.name == "prefix_repetition") {
    return absl::StrCat(items.size(), " requests of ", flags.num_prefixes, " prefixes, ",
                        flags.prefix_len, " + ", flags.suffix_len, " + ", flags.prefix_output_len,
                        " tokens");
  }
  return absl::StrCat(items.size(), " requests of ", flags.path);
}

nlohmann::ordered_json DatasetJson(const DatasetFlags& flags, const std::vector<WorkItem>& items) {
  nlohmann::ordered_json json = {{"dataset_name", flags.name}};
  if (flags.name == "random") {
    json.update(WorkloadJson(flags.random, items));
  } else if (flags.name == "prefix_repetition") {
    json["num_prefixes"] = flags.num_prefixes;
    json["prefix_len"] = flags.prefix_len;
    json["suffix_len"] = flags.suffix_len;
    json["output_len"] = flags.prefix_output_len;
  } else {
    json["dataset_path"] = flags.path;
  }
  return json;
}

}  // namespace quire::bench

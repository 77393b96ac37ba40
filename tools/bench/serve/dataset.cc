#include "tools/bench/serve/dataset.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/json/parse_json.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/failure.h"
#include "tools/bench/json_values.h"
#include "tools/bench/serve/prompt_words.h"
#include "tools/bench/serve/request_file.h"
#include "tools/cli/counted.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

// Every vocabulary has as many, and not every server tells its own: so the same seed makes the same
// prompts whatever is asked.
constexpr int64_t kVocabulary = 1000;
// Of English text; a server's own count is in its answer.
constexpr size_t kCharactersPerToken = 4;

int64_t VocabularyOf(int64_t vocab_size) {
  return vocab_size == 0 ? kVocabulary : std::min(vocab_size, kVocabulary);
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

// The seed's other uses draw other numbers.
std::mt19937_64 RandomOf(const DatasetFlags& flags, uint64_t use) {
  return std::mt19937_64(flags.random.seed ^ (use << 56));
}

void DrawDelays(const DatasetFlags& flags, std::vector<WorkItem>* items) {
  std::mt19937_64 random = RandomOf(flags, 1);
  const ConversationFlags& conversation = flags.conversation;
  std::normal_distribution<double> normal;
  for (WorkItem& item : *items) {
    if (!item.continues) continue;
    const double ms = conversation.delay_mean_ms + conversation.delay_stddev_ms * normal(random);
    item.due_seconds = std::max(0.0, ms) / 1000;
  }
}

// As many conversations as prompts are asked for; their first turns share the beginning.
absl::StatusOr<std::vector<WorkItem>> RandomConversations(const DatasetFlags& flags,
                                                          int64_t vocab_size,
                                                          int64_t max_model_len) {
  std::mt19937_64 random = RandomOf(flags, 2);
  std::normal_distribution<double> normal;
  const ConversationFlags& conversation = flags.conversation;
  const int64_t most = conversation.max_turns > 0 ? conversation.max_turns : 10'000;
  std::vector<bool> continues;
  for (int64_t i = 0; i < flags.random.num_prompts; ++i) {
    const double drawn = conversation.turn_mean + conversation.turn_stddev * normal(random);
    const int64_t turns = std::clamp<int64_t>(std::llround(drawn), 1, most);
    continues.push_back(false);
    continues.resize(continues.size() + turns - 1, true);
  }
  WorkloadFlags turns = flags.random;
  turns.num_prompts = static_cast<int64_t>(continues.size());
  turns.shared_prefix_len = 0;
  ASSIGN_OR_RETURN(std::vector<WorkItem> items, MakeWorkload(turns, vocab_size, max_model_len));
  const int64_t num_shared = flags.random.shared_prefix_len;
  if (num_shared > std::ssize(items[0].prompt)) {
    return UsageError(
        absl::StrCat("--shared-prefix-len: ", num_shared, " is longer than a first turn's prompt"));
  }
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].continues = continues[i];
    const auto count = std::min<int64_t>(num_shared, std::ssize(items[i].prompt));
    if (!continues[i]) {
      std::copy_n(items[0].prompt.begin(), count, items[i].prompt.begin());
    }
  }
  return items;
}

absl::Status BadFile(const DatasetFlags& flags, absl::string_view what) {
  return UsageError(absl::StrCat("--dataset-path: ", flags.path, " ", what));
}

int64_t TokensOf(const DatasetFlags& flags, const std::string& text) {
  const int64_t tokens = flags.tokenizer != nullptr
                             ? CountTokens(*flags.tokenizer, text)
                             : static_cast<int64_t>(text.size() / kCharactersPerToken);
  return std::max<int64_t>(1, tokens);
}

// A JSON list of {"conversations": [{"value": TEXT}, ...]}: each is questions and answers in turns.
absl::StatusOr<std::vector<Conversation>> ReadShareGpt(const DatasetFlags& flags) {
  std::ifstream file(flags.path);
  if (!file) return BadFile(flags, "cannot be read");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const Json json = ParseJson<Json>(text);
  if (!json.is_array()) return BadFile(flags, "is no JSON list of conversations");
  const auto most = static_cast<size_t>(std::max<int64_t>(1, flags.conversation.max_turns));
  std::vector<Conversation> all;
  for (const Json& one : json) {
    const Json& turns = MemberOf(one, "conversations");
    Conversation conversation;
    for (size_t i = 0; turns.is_array() && i + 1 < turns.size(); i += 2) {
      if (conversation.size() == most) break;
      const auto question = StringAt(turns[i], "value"), answer = StringAt(turns[i + 1], "value");
      if (!question.has_value() || !answer.has_value() || question->empty()) break;
      WorkItem item = {.text = *question};
      item.output_len =
          flags.file_output_len > 0 ? flags.file_output_len : TokensOf(flags, *answer);
      item.continues = !conversation.empty();
      conversation.push_back(std::move(item));
    }
    if (!conversation.empty()) all.push_back(std::move(conversation));
  }
  if (all.empty()) return BadFile(flags, "has no conversation with a question and an answer");
  return all;
}

// Tokens of all turns together, as far as they are known without asking the server.
int64_t LengthOf(const DatasetFlags& flags, const Conversation& conversation) {
  int64_t length = 0;
  for (const WorkItem& item : conversation) {
    length += static_cast<int64_t>(item.prompt.size()) + item.output_len;
    if (flags.tokenizer == nullptr) continue;
    length += CountTokens(*flags.tokenizer, item.text);
    for (const ChatMessage& message : item.messages) {
      length += CountTokens(*flags.tokenizer, message.content);
    }
  }
  return length;
}

absl::Status CheckLengths(const DatasetFlags& flags, int64_t max_model_len,
                          std::vector<Conversation>* all) {
  if (max_model_len == 0) return absl::OkStatus();
  int64_t longest = 0;
  const size_t num_left_out = std::erase_if(*all, [&](const Conversation& conversation) {
    const int64_t length = LengthOf(flags, conversation);
    if (length <= max_model_len) return false;
    longest = std::max(longest, length);
    return true;
  });
  if (num_left_out == 0) return absl::OkStatus();
  const bool is_file = !flags.path.empty();
  const std::string what = absl::StrCat(
      num_left_out, " of ", num_left_out + all->size(), " requests, of up to ", longest,
      " tokens with their answers, do not fit the context of ", max_model_len, " tokens");
  if (!is_file) return UsageError(absl::StrCat(what, "; ask for shorter ones"));
  if (!flags.skips_too_long || all->empty()) {
    return UsageError(absl::StrCat("--dataset-path: ", what,
                                   "; leave them out by --skip-too-long, or serve with a longer "
                                   "--max-model-len"));
  }
  Warn(absl::StrCat(what, " and are left out"));
  return absl::OkStatus();
}

// As many as are wanted, in an order of the seed; again from the beginning if there are fewer.
std::vector<Conversation> Sample(std::vector<Conversation> all, const DatasetFlags& flags) {
  if (flags.is_timed()) {
    all.resize(std::min<size_t>(all.size(), flags.random.num_prompts));
    return all;
  }
  std::mt19937_64 random(flags.random.seed);
  if (!flags.keeps_order) std::shuffle(all.begin(), all.end(), random);
  auto count = static_cast<size_t>(flags.random.num_prompts);
  if (flags.no_oversample) count = std::min(count, all.size());
  std::vector<Conversation> sampled;
  sampled.reserve(count);
  for (size_t i = 0; i < count; ++i) sampled.push_back(all[i % all.size()]);
  return sampled;
}

// Whether the backend can ask for it, and go on with its answers.
absl::Status CheckBackendTakes(const DatasetFlags& flags, const std::vector<WorkItem>& items) {
  for (size_t i = 0; i < items.size(); ++i) {
    const WorkItem& item = items[i];
    const bool has_ids = !item.prompt.empty();
    if (!item.messages.empty() && !flags.takes_messages) {
      return BadFile(flags, "has messages; take --backend quire or openai-chat");
    }
    if (has_ids && flags.text) {
      return BadFile(flags, "has token ids, which chats do not take; take another --backend");
    }
    if (item.continues && !(has_ids ? flags.tells_token_ids : flags.tells_text)) {
      return UsageError(absl::StrCat(
          "--backend: its answers have no ", has_ids ? "token ids" : "text",
          ", which the next turn of a conversation would begin with; take another backend, or ",
          has_ids ? "texts" : "token ids", " as prompts"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Conversation>> ReadFile(const DatasetFlags& flags,
                                                   const PromptWords& words, int64_t vocab_size) {
  if (flags.name == "sharegpt") return ReadShareGpt(flags);
  return ReadRequestFile({.path = flags.path,
                          .is_timed = flags.is_timed(),
                          .output_len = flags.file_output_len,
                          .block_size = flags.trace_block_size,
                          .seconds_per_unit = flags.trace_seconds_per_unit,
                          .speedup = flags.trace_speedup,
                          .vocab_size = vocab_size,
                          .seed = flags.random.seed,
                          .words = flags.text ? &words : nullptr});
}

absl::StatusOr<std::vector<WorkItem>> MakeRandom(const DatasetFlags& flags,
                                                 const PromptWords& words, int64_t vocab_size,
                                                 int64_t max_model_len) {
  std::vector<WorkItem> items;
  if (max_model_len == 0) max_model_len = std::numeric_limits<int64_t>::max();
  if (flags.name == "prefix_repetition") {
    items = RepeatPrefixes(flags, vocab_size);
  } else if (flags.conversation.turn_mean > 1 || flags.conversation.turn_stddev > 0) {
    ASSIGN_OR_RETURN(items, RandomConversations(flags, vocab_size, max_model_len));
  } else {
    ASSIGN_OR_RETURN(items, MakeWorkload(flags.random, vocab_size, max_model_len));
  }
  if (!flags.text) return items;
  for (WorkItem& item : items) {
    ASSIGN_OR_RETURN(item.text, words.Text(item.prompt));
    item.prompt.clear();
  }
  return items;
}

std::vector<Conversation> Group(std::vector<WorkItem> items) {
  std::vector<Conversation> all;
  for (WorkItem& item : items) {
    if (!item.continues) all.emplace_back();
    all.back().push_back(std::move(item));
  }
  return all;
}

int64_t NumConversations(const std::vector<WorkItem>& items) {
  return std::count_if(items.begin(), items.end(),
                       [](const WorkItem& item) { return !item.continues; });
}

}  // namespace

absl::StatusOr<std::vector<WorkItem>> MakeDataset(const DatasetFlags& flags, int64_t vocab_size,
                                                  int64_t max_model_len) {
  const PromptWords words(flags.random.seed, flags.tokenizer);
  vocab_size = VocabularyOf(vocab_size);
  std::vector<Conversation> all;
  if (flags.path.empty()) {
    ASSIGN_OR_RETURN(auto items, MakeRandom(flags, words, vocab_size, max_model_len));
    all = Group(std::move(items));
  } else {
    ASSIGN_OR_RETURN(all, ReadFile(flags, words, vocab_size));
    all = Sample(std::move(all), flags);
  }
  RETURN_IF_ERROR(CheckLengths(flags, max_model_len, &all));
  std::vector<WorkItem> items;
  for (Conversation& conversation : all) {
    const bool becomes_chat = conversation.size() > 1 && flags.takes_messages;
    for (WorkItem& item : conversation) {
      if (becomes_chat && !item.text.empty()) {
        item.messages = {{.role = "user", .content = std::move(item.text)}};
        item.text.clear();
      }
      items.push_back(std::move(item));
    }
  }
  RETURN_IF_ERROR(CheckBackendTakes(flags, items));
  if (flags.path.empty() || flags.name == "sharegpt") DrawDelays(flags, &items);
  return items;
}

std::vector<double> DueTimes(const DatasetFlags& flags, const Arrivals& arrivals,
                             const std::vector<WorkItem>& items) {
  const std::vector<double> drawn =
      DrawArrivals(arrivals, NumConversations(items), flags.random.seed);
  std::vector<double> due;
  due.reserve(items.size());
  size_t next = 0;
  for (const WorkItem& item : items) {
    due.push_back(item.continues || flags.is_timed() ? item.due_seconds : drawn[next++]);
  }
  return due;
}

bool SharesPrefixes(const DatasetFlags& flags, const std::vector<WorkItem>& items) {
  return flags.name == "prefix_repetition" || flags.is_timed() ||
         flags.random.shared_prefix_len > 0 || NumConversations(items) < std::ssize(items);
}

std::string DatasetText(const DatasetFlags& flags, const std::vector<WorkItem>& items) {
  const int64_t num_conversations = NumConversations(items);
  const std::string conversations =
      num_conversations < std::ssize(items)
          ? absl::StrCat(", in ", Counted(num_conversations, "conversation"))
          : "";
  if (flags.name == "random") return WorkloadText(flags.random, items) + conversations;
  if (flags.name == "prefix_repetition") {
    return absl::StrCat(Counted(std::ssize(items), "request"), " of ", flags.num_prefixes,
                        flags.num_prefixes == 1 ? " prefix, " : " prefixes, ", flags.prefix_len,
                        " + ", flags.suffix_len, " + ", flags.prefix_output_len, " tokens");
  }
  return absl::StrCat(Counted(std::ssize(items), "request"), " of ", flags.path, conversations);
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
  if (flags.is_timed()) json["trace_speedup"] = flags.trace_speedup;
  const int64_t num_conversations = NumConversations(items);
  if (num_conversations < std::ssize(items)) json["num_conversations"] = num_conversations;
  if (flags.tokenizer != nullptr) json["tokenizer"] = flags.tokenizer_folder;
  return json;
}

}  // namespace quire::bench

#include "server/text/tokenizer/file/tokenizer_file.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/json/json_events.h"
#include "engine/json/parse_json.h"
#include "server/text/tokenizer/file/errors.h"
#include "server/text/tokenizer/file/score.h"

namespace quire {

// Receives nlohmann's parse events. Values outside the two tables build `rest_`.
class TokenizerFileReader : public JsonEvents {
 public:
  explicit TokenizerFileReader(TokenizerFile* file) : file_(*file) {}

  bool null() { return AddValue(nullptr); }
  bool boolean(bool value) { return AddValue(value); }
  bool number_float(double value, const std::string& text) {
    return table_ == Table::kPieces ? AddScore(ReadScore(text)) : AddValue(value);
  }

  bool number_integer(int64_t value) {
    if (table_ == Table::kPieces) return AddScore(static_cast<double>(value));
    return table_ == Table::kVocab ? AddVocabId(value) : AddValue(value);
  }

  bool number_unsigned(uint64_t value) {
    if (table_ == Table::kPieces) return AddScore(static_cast<double>(value));
    if (table_ != Table::kVocab) return AddValue(value);
    constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
    return AddVocabId(static_cast<int64_t>(std::min(value, kMax)));
  }

  bool string(std::string& value) {
    if (table_ == Table::kPieces) return AddPieceText(value);
    return table_ == Table::kMerges ? AddMergeText(value) : AddValue(std::move(value));
  }

  bool key(std::string& value) {
    if (table_ == Table::kVocab) {
      file_.vocab_texts_.push_back(Store(value));
    } else {
      key_ = std::move(value);
    }
    return true;
  }

  bool start_object(size_t) {
    if (table_ != Table::kNone) return FailTable();
    if (IsInModel() && key_ == "vocab") return OpenVocab(Table::kVocab);
    return Open(nlohmann::json::object());
  }

  bool end_object() {
    if (table_ == Table::kVocab) {
      table_ = Table::kNone;
      return true;
    }
    open_.pop_back();
    Leave();
    return true;
  }

  bool start_array(size_t) {
    const bool holds_pairs = table_ == Table::kMerges || table_ == Table::kPieces;
    if (holds_pairs && pair_size_ == kNoPair) {
      pair_size_ = 0;
      return true;
    }
    if (table_ != Table::kNone) return FailTable();
    if (IsInModel() && key_ == "vocab") return OpenVocab(Table::kPieces);
    if (IsInModel() && key_ == "merges") {
      file_.merge_texts_.clear();
      table_ = Table::kMerges;
      return true;
    }
    return Open(nlohmann::json::array());
  }

  bool end_array() {
    if (table_ != Table::kNone) {
      if (pair_size_ == kNoPair) {
        table_ = Table::kNone;
        return true;
      }
      const bool is_pair = pair_size_ == 2;
      pair_size_ = kNoPair;
      return is_pair ? true : FailTable();
    }
    open_.pop_back();
    Leave();
    return true;
  }

 private:
  enum class Table { kNone, kVocab, kPieces, kMerges };  // kPieces: a vocabulary with scores
  static constexpr int kNoPair = -1;
  static constexpr size_t kMaxValues = 1 << 22;

  bool IsInModel() const {
    return open_.size() == 2 && file_.rest_.is_object() && open_[1].key == "model" &&
           open_[1].value->is_object();
  }

  TokenizerFile::Text Store(std::string_view text) {
    file_.bytes_.append(text);
    return {file_.bytes_.size() - text.size(), text.size()};
  }

  bool OpenVocab(Table form) {
    file_.vocab_texts_.clear();
    file_.vocab_ids_.clear();
    file_.vocab_scores_.clear();
    table_ = form;
    return true;
  }

  bool AddPieceText(std::string_view text) {
    if (pair_size_ != 0) return FailTable();
    pair_size_ = 1;
    file_.vocab_ids_.push_back(static_cast<int64_t>(file_.vocab_texts_.size()));
    file_.vocab_texts_.push_back(Store(text));
    return true;
  }

  bool AddScore(double score) {
    if (pair_size_ != 1) return FailTable();
    if (!std::isfinite(score)) return Fail("\"model.vocab\" has a score that is out of range");
    pair_size_ = 2;
    file_.vocab_scores_.push_back(score);
    return true;
  }

  bool AddVocabId(int64_t id) {
    file_.vocab_ids_.push_back(id);
    return true;
  }

  bool AddMergeText(std::string_view text) {
    if (pair_size_ != kNoPair) {
      if (++pair_size_ > 2) return FailTable();
      file_.merge_texts_.push_back(Store(text));
      return true;
    }
    if (text.starts_with("#version")) return true;
    const size_t blank = text.find(' ');
    if (blank == std::string_view::npos || text.find(' ', blank + 1) != std::string_view::npos) {
      return FailTable();
    }
    file_.merge_texts_.push_back(Store(text.substr(0, blank)));
    file_.merge_texts_.push_back(Store(text.substr(blank + 1)));
    return true;
  }

  // Puts a value where the events are; returns its place through `place`.
  bool Place(nlohmann::json value, nlohmann::json** place) {
    if (table_ != Table::kNone) return FailTable();
    if (++num_values_ > kMaxValues) return Fail("more values than any tokenizer has");
    if (open_.empty()) {
      file_.rest_ = std::move(value);
      *place = &file_.rest_;
      return true;
    }
    nlohmann::json& parent = *open_.back().value;
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      *place = &parent.back();
    } else {
      nlohmann::json& member = parent[key_];
      member = std::move(value);
      *place = &member;
    }
    return true;
  }

  bool AddValue(nlohmann::json value) {
    nlohmann::json* place;
    return Place(std::move(value), &place);
  }

  bool Open(nlohmann::json value) {
    if (!Enter()) return false;
    nlohmann::json* place;
    if (!Place(std::move(value), &place)) return false;
    open_.push_back({place, key_});
    return true;
  }

  bool FailTable() {
    if (table_ == Table::kMerges) {
      return Fail("\"model.merges\" must list pairs, each as \"a b\" or as [\"a\", \"b\"]");
    }
    return Fail(table_ == Table::kVocab ? "\"model.vocab\" must map texts to integers"
                                        : "\"model.vocab\" must list pairs of a text and a number");
  }

  struct OpenValue {
    nlohmann::json* value;
    std::string key;
  };

  TokenizerFile& file_;
  std::vector<OpenValue> open_;  // the objects and arrays around the events, without the tables
  std::string key_;
  Table table_ = Table::kNone;
  int pair_size_ = kNoPair;  // texts so far of the pair that the events are in
  size_t num_values_ = 0;
};

absl::StatusOr<TokenizerFile> TokenizerFile::Parse(std::string_view json) {
  TokenizerFile file;
  TokenizerFileReader reader(&file);
  if (!ReadJsonEvents(json, &reader)) {
    return InvalidArgument(reader.error());
  }
  if (!file.rest_.is_object()) return InvalidArgument("must be a JSON object");
  return file;
}

std::vector<std::string_view> TokenizerFile::VocabTexts() const {
  std::vector<std::string_view> texts;
  texts.reserve(vocab_texts_.size());
  for (const Text& text : vocab_texts_) texts.push_back(View(text));
  return texts;
}

std::vector<std::pair<std::string_view, std::string_view>> TokenizerFile::Merges() const {
  std::vector<std::pair<std::string_view, std::string_view>> merges;
  merges.reserve(merge_texts_.size() / 2);
  for (size_t i = 0; i + 1 < merge_texts_.size(); i += 2) {
    merges.emplace_back(View(merge_texts_[i]), View(merge_texts_[i + 1]));
  }
  return merges;
}

}  // namespace quire

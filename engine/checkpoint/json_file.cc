#include "engine/checkpoint/json_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"

namespace quire {
namespace {

using nlohmann::json;

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxShownChars = 100;
constexpr size_t kMaxParserMessageChars = 300;

// Builds the value from the parser's events and stops at the first thing it does not accept. The
// parser itself keeps its nesting on the heap, so the depth limit is what bounds a hostile text.
class ObjectBuilder : public nlohmann::json_sax<json> {
 public:
  explicit ObjectBuilder(DuplicateKeys duplicates) : duplicates_(duplicates) {}

  json& root() { return root_; }
  const std::string& error() const { return error_; }

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t&) override { return Add(value); }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t&) override { return Fail("binary values are not JSON"); }
  bool start_object(size_t) override { return Open(json::object()); }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(json::array()); }
  bool end_array() override { return Close(); }

  bool key(string_t& value) override {
    json& object = *open_.back();
    if (duplicates_ == DuplicateKeys::kRefused && object.contains(value)) {
      return Fail(absl::StrCat("key ", Shown(value), " appears twice"));
    }
    slot_ = &object[value];
    return true;
  }

  bool parse_error(size_t position, const std::string&, const json::exception& error) override {
    // "[json.exception.parse_error.101] <message>; last read: '<raw bytes>'"
    absl::string_view message = error.what();
    message.remove_prefix(std::min(message.find("] ") + 2, message.size()));
    message = message.substr(0, message.find("; last read")).substr(0, kMaxParserMessageChars);
    return Fail(absl::StrCat("not valid JSON at byte ", position, ": ", message));
  }

 private:
  bool Fail(std::string message) {
    error_ = std::move(message);
    return false;
  }

  json* Place(json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_array()) return &open_.back()->emplace_back(std::move(value));
    return &(*slot_ = std::move(value));
  }

  bool Add(json value) {
    if (open_.empty()) return Fail("the file must hold one JSON object");
    Place(std::move(value));
    return true;
  }

  bool Open(json value) {
    if (open_.empty() && !value.is_object()) return Fail("the file must hold one JSON object");
    if (open_.size() == kMaxDepth) {
      return Fail(absl::StrCat("nested more than ", kMaxDepth, " deep"));
    }
    open_.push_back(Place(std::move(value)));
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const DuplicateKeys duplicates_;
  json root_;
  std::vector<json*> open_;  // objects and arrays that are not closed yet, outermost first
  json* slot_ = nullptr;     // where the value of the last key goes
  std::string error_;
};

absl::Status FileError(const std::string& path) {
  const int error = errno;
  const std::string message = absl::StrCat(path, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  return absl::InvalidArgumentError(message);
}

absl::StatusOr<std::string> ReadOpenFile(int fd, const std::string& path, int64_t max_bytes) {
  struct stat info;
  if (fstat(fd, &info) != 0) return FileError(path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  }
  if (info.st_size > max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has ", WithCommas(info.st_size),
                                                   " bytes; at most ", WithCommas(max_bytes),
                                                   " are read"));
  }
  std::string text(info.st_size, '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = pread(fd, text.data() + done, text.size() - done, done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError(path);
    if (count == 0) break;  // became shorter since fstat
    done += count;
  }
  text.resize(done);
  return text;
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, int64_t max_bytes) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return FileError(path);
  absl::StatusOr<std::string> text = ReadOpenFile(fd, path, max_bytes);
  close(fd);
  return text;
}

absl::StatusOr<json> ParseJsonObject(absl::string_view text, absl::string_view name,
                                     DuplicateKeys duplicates) {
  ObjectBuilder builder(duplicates);
  if (!json::sax_parse(text, &builder)) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", builder.error()));
  }
  return std::move(builder.root());
}

std::string WithCommas(uint64_t value) {
  const std::string digits = absl::StrCat(value);
  std::string result;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) result += ',';
    result += digits[i];
  }
  return result;
}

std::string Shown(const json& value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  if (text.size() > kMaxShownChars) {
    text.resize(kMaxShownChars);
    text += "...";
  }
  return text;
}

std::string Shown(const std::string& text) { return Shown(json(text)); }

JsonReader::JsonReader(const json& object, std::string name, absl::Status* status)
    : object_(&object), name_(std::move(name)), status_(status) {}

bool JsonReader::Has(absl::string_view key) const { return object_->contains(std::string(key)); }

const json* JsonReader::Find(absl::string_view key) const {
  const auto it = object_->find(std::string(key));
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

std::optional<int64_t> JsonReader::Int(absl::string_view key, int64_t min, int64_t max) {
  const json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  return CheckedInt(*value, key, min, max);
}

std::optional<double> JsonReader::Double(absl::string_view key, double min, double max) {
  const json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    FailType(key, "a number", *value);
    return std::nullopt;
  }
  const double number = value->get<double>();
  if (number >= min && number <= max) return number;
  Fail(absl::StrCat(key, " is ", number, "; it must be between ", min, " and ", max));
  return std::nullopt;
}

std::optional<bool> JsonReader::Bool(absl::string_view key) {
  const json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  FailType(key, "true or false", *value);
  return std::nullopt;
}

std::optional<std::string> JsonReader::String(absl::string_view key) {
  const json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  FailType(key, "a string", *value);
  return std::nullopt;
}

std::vector<int64_t> JsonReader::IntOrIntList(absl::string_view key, int64_t min, int64_t max) {
  std::vector<int64_t> result;
  const json* value = Find(key);
  if (value == nullptr) return result;
  if (!value->is_array()) {
    if (auto number = CheckedInt(*value, key, min, max)) result.push_back(*number);
    return result;
  }
  for (const json& element : *value) {
    const auto number = CheckedInt(element, key, min, max);
    if (!number) return {};
    result.push_back(*number);
  }
  return result;
}

std::vector<std::string> JsonReader::StringList(absl::string_view key) {
  std::vector<std::string> result;
  const json* value = Find(key);
  if (value == nullptr) return result;
  if (!value->is_array()) {
    FailType(key, "a list of strings", *value);
    return result;
  }
  for (const json& element : *value) {
    if (!element.is_string()) {
      FailType(key, "a list of strings", *value);
      return {};
    }
    result.push_back(element.get<std::string>());
  }
  return result;
}

std::optional<JsonReader> JsonReader::Object(absl::string_view key) {
  const json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_object()) return JsonReader(*value, absl::StrCat(name_, ": ", key), status_);
  FailType(key, "an object", *value);
  return std::nullopt;
}

void JsonReader::Fail(absl::string_view message) {
  if (status_->ok()) *status_ = absl::InvalidArgumentError(absl::StrCat(name_, ": ", message));
}

void JsonReader::FailUnsupported(absl::string_view message) {
  if (status_->ok()) *status_ = absl::UnimplementedError(absl::StrCat(name_, ": ", message));
}

std::optional<int64_t> JsonReader::CheckedInt(const json& value, absl::string_view key, int64_t min,
                                              int64_t max) {
  if (!value.is_number_integer()) {
    FailType(key, "an integer", value);
    return std::nullopt;
  }
  const bool fits = !value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX;
  if (fits && value.get<int64_t>() >= min && value.get<int64_t>() <= max) {
    return value.get<int64_t>();
  }
  Fail(absl::StrCat(key, " is ", Shown(value), "; it must be between ", min, " and ", max));
  return std::nullopt;
}

void JsonReader::FailType(absl::string_view key, absl::string_view expected, const json& value) {
  Fail(absl::StrCat(key, " must be ", expected, ", not ", Shown(value)));
}

}  // namespace quire

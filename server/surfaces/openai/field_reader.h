// FieldReader: typed look-ups in the JSON object of a request. The first field that cannot be used
// is kept, so a caller reads everything and checks status() once. Null counts as left out. One
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/text/json_tree.h"

namespace quire {

class FieldReader {
 public:
  // `prefix` begins the names of the fields: "stream_options.". The object outlives the reader.
  explicit FieldReader(const JsonTree& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)), is_read_(object.keys.size()) {}

  const absl::Status& status() const { return status_; }
  const JsonTree* Find(absl::string_view key) const;
  // The members that nobody has looked for yet, except those that are null.
  std::vector<std::string> Unread() const;

  std::optional<int64_t> Int(absl::string_view key);
  std::optional<double> Number(absl::string_view key);
  std::optional<float> Float(absl::string_view key);
  std::optional<bool> Bool(absl::string_view key);
  std::optional<std::string> Text(absl::string_view key);
  // A single text counts as a list of one.
  std::vector<std::string> Texts(absl::string_view key);
  std::vector<uint32_t> TokenIds(absl::string_view key);

  // Each returns false, which the caller can return.
  bool Fail(absl::string_view key, absl::string_view sentence);
  // For a feature that this server does not have: fails unless the field is left out or one of
  // these.
  void Refuse(absl::string_view key, absl::string_view sentence);
  void RefuseUnlessEmpty(absl::string_view key, absl::string_view sentence);
  void RefuseUnlessFalse(absl::string_view key, absl::string_view sentence);
  // For the name that another server or API has for `ours`.
  void RefuseName(absl::string_view key, absl::string_view ours);
  void Keep(const absl::Status& status) { status_.Update(status); }

 private:
  size_t IndexOf(const JsonTree& member) const {
    return static_cast<size_t>(&member - object_.items.data());
  }

  const JsonTree& object_;
  const std::string prefix_;
  mutable std::vector<bool> is_read_;  // [object_.keys.size()]
  absl::Status status_;
};

// The text `key` of an object within the request, which is called `field`; fails if it has none.
std::string RequiredText(FieldReader& fields, const JsonTree& object, const std::string& field,
                         absl::string_view key);

// A list of token ids; nothing for anything else.
std::optional<std::vector<uint32_t>> ToTokenIds(const JsonTree& list);

}  // namespace quire

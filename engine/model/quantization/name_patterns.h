// NamePattern, NamePatterns: the names of modules in configurations of quantizers; each package
// writes them in its own way. A configuration may come from anybody, so compiling and matching take
// bounded time and memory. Immutable once made, and shared by threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct pcre2_real_code_8;

namespace quire {

enum class NameRule : uint8_t {
  kExact,
  kLastPart,      // "lm_head": that name, or a name that ends with ".lm_head"
  kSubstring,     // AutoAWQ
  kPrefix,        // from the start up to a dot or the end: a module and those in it
  kRegex,         // from the start, as Python's re.match
  kCompressed,    // compressed-tensors: "re:" and a regular expression, else exact
  kGlob,          // ModelOpt: shell wildcards; without them a module and those in it
  kTransformers,  // from the start up to a border of modules, as text or as an expression; or the
                  // end
};

// One name or pattern.
class NamePattern {
 public:
  // INVALID_ARGUMENT when the text is no regular expression, or one that could take long.
  static absl::StatusOr<NamePattern> Create(absl::string_view text, NameRule rule);

  // INVALID_ARGUMENT when the expression takes more steps or memory than the bound for a name.
  absl::StatusOr<bool> Matches(absl::string_view name) const;

  const std::string& text() const { return text_; }
  // Compares without an expression.
  bool is_plain() const { return code_ == nullptr; }
  bool is_exact() const { return is_plain() && rule_ == NameRule::kExact; }

 private:
  NamePattern(std::string text, NameRule rule) : text_(std::move(text)), rule_(rule) {}

  std::string text_;  // the name to compare with, or the expression as the file has it
  NameRule rule_;
  std::shared_ptr<const pcre2_real_code_8> code_;
};

// A list of them.
class NamePatterns {
 public:
  // Expressions are slower than names: a list with more of them is refused.
  static constexpr size_t kMaxExpressions = 1000;

  NamePatterns() = default;
  static absl::StatusOr<NamePatterns> Create(const std::vector<std::string>& texts, NameRule rule);

  absl::StatusOr<bool> Matches(absl::string_view name) const;
  bool empty() const { return names_.empty() && patterns_.empty(); }

 private:
  absl::flat_hash_set<std::string> names_;  // the exact ones
  std::vector<NamePattern> patterns_;
};

}  // namespace quire

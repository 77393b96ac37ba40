// The normalizer of tokenizer.json: changes the text between added tokens before it is split.
// Immutable after Parse; any thread. Valid UTF-8 in, valid UTF-8 out.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "server/text/tokenizer/regex/regex.h"

namespace quire {

// One change of a text, in place.
class NormalizerStep {
 public:
  virtual ~NormalizerStep() = default;
  virtual absl::Status Apply(std::string* text, RegexScratch* scratch) const = 0;
};

class Normalizer {
 public:
  // `json` is the value of the "normalizer" key: null or an object. INVALID_ARGUMENT names a
  // component that is malformed, UNIMPLEMENTED one that is not supported.
  static absl::StatusOr<Normalizer> Parse(const nlohmann::json& json);

  // Applies every step in order. Empty text stays empty. RESOURCE_EXHAUSTED when a text grows past
  // kMaxNormalizedBytes or a pattern gives up on it.
  absl::Status Apply(std::string* text, RegexScratch* scratch) const;

 private:
  std::vector<std::unique_ptr<NormalizerStep>> steps_;
};

inline constexpr size_t kMaxNormalizedBytes = size_t{1} << 29;

}  // namespace quire

// The post-processor of tokenizer.json: the special tokens around an encoded text. Plain values.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "kernels/base/types.h"
#include "nlohmann/json_fwd.hpp"

namespace quire {

struct PostProcessor {
  std::vector<TokenId> prefix;
  std::vector<TokenId> suffix;

  // `json` is the value of the "post_processor" key: null or an object. INVALID_ARGUMENT names a
  // component that is malformed, UNIMPLEMENTED one that is not supported.
  static absl::StatusOr<PostProcessor> Parse(const nlohmann::json& json);
};

}  // namespace quire

// Flags of vLLM, llama-server, SGLang, TGI and trtllm-serve that quire-server does not have, with
// one sentence each: what to use, why it is not needed, or that it is not supported yet. Any
// thread.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace quire {

struct ForeignFlags {
  absl::string_view names;   // with their dashes, separated by spaces; one ending in * is a prefix
  absl::string_view advice;  // the text after "--their-flag: "
};

absl::Span<const ForeignFlags> ForeignFlagTable();

// The advice for `flag` ("--ctx-size", "-c=4096", "--no_mmap", "-O.level"), whose value does not
// matter; empty when the flag is not in the table.
std::string ForeignFlagAdvice(absl::string_view flag,
                              absl::Span<const ForeignFlags> table = ForeignFlagTable());

// The advice for `quire-server command [model]`, with a command that other programs have ("run",
// "pull"); empty for any other word.
std::string ForeignCommandAdvice(absl::string_view command, absl::string_view model);

}  // namespace quire

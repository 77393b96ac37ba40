// Logprobs as lines that people read. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "quire/v1/inference.pb.h"

namespace quire::client {

// `title`, then a line per token: its id, its bytes as a quoted text, its logprob and rank, then
// the alternatives with the same values. A token without a logprob (the first of a prompt) has "-"
// there.
std::string LogprobTable(const std::string& title, const std::vector<v1::TokenLogprob>& tokens);

}  // namespace quire::client

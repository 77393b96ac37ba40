// What a page says of starts of a server: stages, listening and first token, and what idling costs.
// Pure.
#pragma once

#include <string>

#include "tools/bench/report/sections/named_result.h"

namespace quire::bench {

// HTML; empty where there are no results.
std::string StartupSection(const Results& results);

}  // namespace quire::bench

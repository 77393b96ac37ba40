// What a page says of conversations: the first token of each turn, and what of its prompt was
// cached. Pure.
#pragma once

#include <string>

#include "tools/bench/report/sections/named_result.h"

namespace quire::bench {

// HTML; empty where no run had a second turn.
std::string TurnSection(const Results& results);

}  // namespace quire::bench

// What a page says of answers: scores of each task side by side. Pure.
#pragma once

#include <string>

#include "tools/bench/report/sections/named_result.h"

namespace quire::bench {

// HTML; empty where there are no results.
std::string QualitySection(const Results& results);

}  // namespace quire::bench

// What a page says of steps in steady decode: the device's time and the host's. Pure.
#pragma once

#include <string>

#include "tools/bench/report/sections/named_result.h"

namespace quire::bench {

// HTML; empty where there are no results.
std::string TimelineSection(const Results& results);

}  // namespace quire::bench

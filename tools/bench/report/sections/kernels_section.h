// What a page says of kernels: each operation's time against the limit, row by row beside each
// other. Pure.
#pragma once

#include <string>

#include "tools/bench/report/sections/named_result.h"

namespace quire::bench {

// HTML; empty where there are no results.
std::string KernelsSection(const Results& results);

}  // namespace quire::bench

// What a page says of runs in words and tables: doubts, the figures that most people look for, and
// all figures side by side. Pure.
#pragma once

#include <string>

#include "tools/bench/report/sections/named_result.h"

namespace quire::bench {

// Items of a list.
std::string RunNotices(const Results& runs);
std::string RunHeadlines(const NamedResult& one);
std::string RunSummary(const Results& runs);

}  // namespace quire::bench

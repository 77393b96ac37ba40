// What a page says of runs in words and tables: doubts, the figures that most people look for, and
// all figures side by side. Pure.
#pragma once

#include <string>

#include "kernels/base/progress.h"
#include "tools/bench/report/sections/named_result.h"

namespace quire::bench {

// Items of a list.
std::string RunNotices(const Results& runs);
std::string RunHeadlines(const NamedResult& one);
// The best of several is marked where `compare` calls it clear, which takes a while: `progress`, if
// any, counts that.
std::string RunSummary(const Results& runs, Progress* progress);

}  // namespace quire::bench

// Pages of results. Each is one file that needs nothing from outside; its own script (page/) draws
// its data. Pure; any thread.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace quire::bench {

// `data` has the results of a report, or the steps of a timeline; see page/report.js. No text of it
// becomes markup. Control characters, and characters that change the direction of text, become
// U+FFFD.
std::string ResultPage(const std::string& title, const nlohmann::ordered_json& data);

// The page without its title and its data, made of page/ when quire-bench is built.
absl::string_view PageTemplate();

// With five digits, as a page needs it.
double Short(double value);

}  // namespace quire::bench

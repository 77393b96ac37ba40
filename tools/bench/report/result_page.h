// Pages of results: one file each, with nothing from outside, which draws what its data says by its
// own script (page/). Pure; any thread.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace quire::bench {

// `data` has the results of a report, or the steps of a timeline; see page/report.js. No text of it
// becomes markup; control characters and those that turn the direction of text become U+FFFD.
std::string ResultPage(const std::string& title, const nlohmann::ordered_json& data);

// The page without its title and its data, made of page/ when quire-bench is built.
absl::string_view PageTemplate();

// With five digits, as a page needs it.
double Short(double value);

}  // namespace quire::bench

// The page of a report without its title and its body, made of report/page/ when quire-bench is
// built.
#pragma once

#include "absl/strings/string_view.h"

namespace quire::bench {

absl::string_view PageTemplate();

}  // namespace quire::bench

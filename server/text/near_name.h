// The name that a mistyped name may have meant. Pure functions; any thread.
#pragma once

#include <string>
#include <vector>

namespace quire {

// The known name nearest to `name` by edit distance; empty when none is near.
std::string NearestName(const std::string& name, const std::vector<std::string>& known);

// "did you mean NAME?", or `otherwise` when no known name is near.
std::string DidYouMean(const std::string& name, const std::vector<std::string>& known,
                       const std::string& otherwise);

}  // namespace quire

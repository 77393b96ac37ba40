// The terminals of Lark's module `common`. Constant; any thread.
#pragma once

#include <string_view>

namespace quire {

// The regular expression of %import common.NAME; empty if there is none of this name. Letters are
// ASCII's, as in llguidance.
std::string_view LarkCommonTerminal(std::string_view name);

}  // namespace quire

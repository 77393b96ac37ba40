// The functions that every template can call: range, dict, namespace, raise_exception,
// strftime_now.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "server/text/chat/jinja/values/value.h"

namespace quire::jinja {

// Their names, valid for ever, and the functions.
std::vector<std::pair<std::string_view, Value>> Globals();

}  // namespace quire::jinja

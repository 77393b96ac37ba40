// Names that nobody can guess. Any thread.
#pragma once

#include <string>

namespace quire {

// 32 hexadecimal digits: 128 random bits of the system.
std::string RandomId();

}  // namespace quire

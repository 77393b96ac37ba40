// OpenSSL's errors in words. The calling thread's.
#pragma once

#include <string>

namespace quire {

// The reasons of what has just failed, oldest first, and forgets them; "no reason given" if none.
std::string TakeTlsErrors();

}  // namespace quire

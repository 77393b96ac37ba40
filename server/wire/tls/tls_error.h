// OpenSSL's errors in words. The calling thread's.
#pragma once

#include <string>

namespace quire {

// The reasons of the last failure, oldest first; forgets them. "no reason given" if there are none.
std::string TakeTlsErrors();

}  // namespace quire

// The page at /: the server's state and a chat, for a browser. It is the same for everybody and
// holds no secret; what it shows it asks for itself, with the key that its user gives it.
#pragma once

#include "server/call/http_route.h"

namespace quire {

HttpRoute PageRoute();

}  // namespace quire

// The page at /: the server's state and a chat, for a browser. It is the same for everybody and
// holds no secret. It asks by itself for the values that it shows, with the key that its user gives
// it.
#pragma once

#include "server/call/http_route.h"

namespace quire {

HttpRoute PageRoute();

}  // namespace quire

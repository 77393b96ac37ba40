// The exchanges of HTTP/2 are those of HTTP. The thread of the connection's loop.
#pragma once

#include "server/http/http_exchange.h"

namespace quire {

using Http2Exchange = HttpExchange;
using Http2Stream = HttpStream;

}  // namespace quire

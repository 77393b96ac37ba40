// The credentials that a request shows, over any HTTP. Pure; the thread of the connection's loop.
#pragma once

#include "server/auth/authenticator.h"
#include "server/wire/http/http_exchange.h"

namespace quire {

Credentials ShownCredentials(const RequestHead& head, HttpStream& stream);

}  // namespace quire

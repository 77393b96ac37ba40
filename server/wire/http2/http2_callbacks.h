// nghttp2's callbacks for one Http2Connection.
#pragma once

#include <nghttp2/nghttp2.h>

namespace quire {

class Http2Connection;

// A server's session with our limits, whose events go to `connection`.
nghttp2_session* NewServerSession(Http2Connection* connection);

}  // namespace quire

// The options of every TLS connection of this program, as a server and as a client. Any thread.
#pragma once

#include <openssl/ssl.h>

namespace quire {

// TLS 1.2 and 1.3, no compression, no renegotiation, no sessions that are kept for later.
void SetTlsOptions(SSL_CTX* context);

}  // namespace quire

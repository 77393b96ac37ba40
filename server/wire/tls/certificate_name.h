// The name that a client certificate gives its bearer. Pure; any thread.
#pragma once

#include <openssl/x509.h>

#include <optional>
#include <string>

namespace quire {

// The first DNS, URI or e-mail name among the subject's alternative names, else the last common
// name. Nothing when that is not 1 .. 256 characters of printable ASCII: an embedded zero or a
// control character makes a name look like another's.
std::optional<std::string> CertificateName(const X509* certificate);

}  // namespace quire

// What other programs' users set in the environment, too. Before threads write it; any thread.
#pragma once

#include <functional>
#include <string>

namespace quire {

// The value of an environment variable; empty when it is not set.
using ReadVariable = std::function<std::string(const std::string& name)>;

std::string ReadEnvironment(const std::string& name);

// The file of the CAs that clients of ours trust: SSL_CERT_FILE, REQUESTS_CA_BUNDLE or
// CURL_CA_BUNDLE, else a distribution's. Empty: what the library was built for.
std::string CertificateFile(const ReadVariable& variable = ReadEnvironment);

}  // namespace quire

// Environment variables that users of other programs set, too. Any thread, before a thread writes
// the environment.
#pragma once

#include <functional>
#include <string>

namespace quire {

// The value of an environment variable; empty when it is not set.
using ReadVariable = std::function<std::string(const std::string& name)>;

std::string ReadEnvironment(const std::string& name);

// The file of the CAs that our clients trust: SSL_CERT_FILE, REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE,
// else the file of a distribution. Empty: the file that the library was built for.
std::string CertificateFile(const ReadVariable& variable = ReadEnvironment);

}  // namespace quire

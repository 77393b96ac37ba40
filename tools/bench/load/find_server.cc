#include "tools/bench/load/find_server.h"

#include "absl/strings/strip.h"
#include "kernels/base/status_macros.h"
#include "server/base/environment.h"
#include "server/base/host_port.h"
#include "server/wire/tls/client_context.h"
#include "tools/client/credentials.h"
#include "tools/client/target.h"

namespace quire::bench {

absl::StatusOr<ServerAddress> FindServer(std::string_view target) {
  absl::string_view rest(target.data(), target.size());
  const bool uses_tls = absl::ConsumePrefix(&rest, client::kTlsPrefix);
  ASSIGN_OR_RETURN(const HostPort host_port, ParseHostPort(rest, client::kDefaultPort));
  ASSIGN_OR_RETURN(ServerAddress server, LookUpServer(host_port));
  if (!uses_tls) return server;
  ClientTlsFiles files = {.ca = ReadEnvironment(client::kCaVariable),
                          .certificate = ReadEnvironment(client::kCertificateVariable),
                          .key = ReadEnvironment(client::kCertificateKeyVariable)};
  if (files.ca.empty()) files.ca = CertificateFile();
  ASSIGN_OR_RETURN(server.tls, MakeClientContext(files));
  return server;
}

}  // namespace quire::bench

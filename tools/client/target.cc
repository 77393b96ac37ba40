#include "tools/client/target.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iomanip>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/host_port.h"
#include "tools/client/credentials.h"

namespace quire::client {

namespace {

constexpr char kVariable[] = "QUIRE_TARGET";
constexpr char kAddressFileVariable[] = "QUIRE_ADDRESS_FILE";
constexpr int kMaxAddress = 300;

absl::Status Malformed(std::string_view text, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("\"", absl::string_view(text.data(), text.size()),
                                                 "\" ", problem, "; write HOST:PORT, for example ",
                                                 kDefaultTarget, " or [::1]:8000"));
}

// The address of a server beside this program that was told to leave it (--address-file), or else
// kDefaultTarget: it may not have come so far, or found no room to write.
std::string LocalTarget() {
  const char* path = std::getenv(kAddressFileVariable);  // NOLINT(concurrency-mt-unsafe)
  std::ifstream file(path == nullptr ? "" : path);
  std::string address;
  return file >> std::setw(kMaxAddress) >> address ? address : kDefaultTarget;
}

}  // namespace

absl::StatusOr<std::string> ParseTarget(std::string_view text) {
  absl::string_view rest(text.data(), text.size());
  absl::string_view prefix;
  const size_t scheme_end = rest.find("://");
  if (scheme_end != absl::string_view::npos) {
    const std::string scheme = absl::AsciiStrToLower(rest.substr(0, scheme_end));
    if (scheme == "https" || scheme == "grpcs") {
      prefix = kTlsPrefix;
    } else if (scheme != "http" && scheme != "grpc") {
      return Malformed(text, "begins with an unknown scheme");
    }
    rest.remove_prefix(scheme_end + 3);
    absl::ConsumeSuffix(&rest, "/");
  }
  if (absl::StrContains(rest, '/')) return Malformed(text, "has a path, which an address has not");
  if (absl::StrContains(rest, '@')) return Malformed(text, "has a user name, which is not used");
  const absl::StatusOr<HostPort> server = ParseHostPort(rest, kDefaultPort);
  if (!server.ok()) return Malformed(text, server.status().message());
  return absl::StrCat(prefix, server->ToString());
}

void AddTargetFlag(CLI::App& command, std::string* target) {
  *target = LocalTarget();
  const CLI::Validator address(
      [](std::string& text) -> std::string {
        const absl::StatusOr<std::string> parsed = ParseTarget(text);
        if (parsed.ok()) {
          text = *parsed;
          const absl::Status key = CheckKeyVariable();
          if (!key.ok()) return std::string(key.message());
          if (!absl::StartsWith(text, kTlsPrefix)) return "";
          return std::string(CheckTlsVariables().message());
        }
        const char* variable = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe)
        const bool from_environment = variable != nullptr && text == variable;
        return absl::StrCat(from_environment ? "from QUIRE_TARGET: " : "",
                            parsed.status().message());
      },
      "");
  command
      .add_option("--target", *target,
                  "Address of the server: HOST:PORT, or https://HOST:PORT for TLS")
      ->type_name("ADDRESS")
      ->envname(kVariable)
      ->transform(address)
      ->capture_default_str()
      ->force_callback();  // the default address needs a sound key as well
}

}  // namespace quire::client

#include "tools/client/target.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iomanip>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tools/client/credentials.h"

namespace quire::client {

namespace {

constexpr char kVariable[] = "QUIRE_TARGET";
constexpr char kAddressFileVariable[] = "QUIRE_ADDRESS_FILE";
constexpr int kMaxAddress = 300;
constexpr absl::string_view kDefaultPort = "8000";

absl::Status Malformed(std::string_view text, std::string_view problem) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", absl::string_view(text.data(), text.size()), "\" ",
                   absl::string_view(problem.data(), problem.size()),
                   "; write HOST:PORT, for example ", kDefaultTarget, " or [::1]:8000"));
}

bool IsHostName(absl::string_view host) {
  if (host.empty() || host.size() > 253) return false;
  for (const char c : host) {
    if (!absl::ascii_isalnum(c) && c != '-' && c != '.' && c != '_') return false;
  }
  return true;
}

// The inside of [...]: the address, perhaps with "%interface".
bool IsIpv6(absl::string_view host) {
  const absl::string_view address = host.substr(0, host.find('%'));
  if (!absl::StrContains(address, ':')) return false;
  for (const char c : address) {
    if (!absl::ascii_isxdigit(c) && c != ':' && c != '.') return false;
  }
  return address.size() == host.size() || IsHostName(host.substr(address.size() + 1));
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
  absl::string_view host = rest;
  absl::string_view port = kDefaultPort;
  if (absl::StartsWith(rest, "[")) {
    const size_t end = rest.find(']');
    if (end == absl::string_view::npos || !IsIpv6(rest.substr(1, end - 1))) {
      return Malformed(text, "has no IPv6 address in its brackets");
    }
    host = rest.substr(0, end + 1);
    absl::string_view after = rest.substr(end + 1);
    if (!after.empty() && !absl::ConsumePrefix(&after, ":")) {
      return Malformed(text, "goes on after the bracket without a colon");
    }
    if (host.size() != rest.size()) port = after;
  } else {
    const size_t colon = rest.find(':');
    if (colon != rest.rfind(':')) return Malformed(text, "has several colons; IPv6 needs brackets");
    if (colon != absl::string_view::npos) {
      host = rest.substr(0, colon);
      port = rest.substr(colon + 1);
    }
    if (!IsHostName(host)) return Malformed(text, "has no host name or address");
  }
  int32_t number = 0;
  if (!absl::SimpleAtoi(port, &number) || !absl::ascii_isdigit(port.front()) || number < 1 ||
      number > 65535) {
    return Malformed(text, "has no port from 1 to 65535 after its colon");
  }
  return absl::StrCat(prefix, host, ":", number);
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

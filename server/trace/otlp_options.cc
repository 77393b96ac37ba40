#include "server/trace/otlp_options.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "kernels/base/status_macros.h"
#include "server/base/host_port.h"
#include "server/base/version.h"
#include "server/text/utf8.h"

namespace quire {

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

constexpr char kFlag[] = "--otlp-traces-endpoint";
constexpr int32_t kDefaultPort = 4317;

absl::Status ReadEndpoint(absl::string_view endpoint, OtlpOptions* options) {
  const auto wrong = [&](absl::string_view what) {
    return absl::OutOfRangeError(
        absl::StrCat(kFlag, ": \"", absl::CHexEscape(endpoint), "\" ", what,
                     "; give a URL such as http://collector:4317, or https:// for TLS"));
  };
  absl::string_view rest = endpoint;
  if (absl::ConsumePrefix(&rest, "http://") || absl::ConsumePrefix(&rest, "grpc://")) {
    options->uses_tls = false;
  } else if (absl::ConsumePrefix(&rest, "https://") || absl::ConsumePrefix(&rest, "grpcs://")) {
    options->uses_tls = true;
  } else {
    return wrong("begins with none of http://, grpc://, https:// and grpcs://");
  }
  absl::ConsumeSuffix(&rest, "/");
  if (rest.find_first_of("/?#@") != absl::string_view::npos) {
    return wrong("has more than a host and a port, which gRPC knows");
  }
  absl::StatusOr<HostPort> server = ParseHostPort(rest, kDefaultPort);
  if (!server.ok()) return wrong(absl::StrCat("is no URL: it ", server.status().message()));
  options->server = *std::move(server);
  return absl::OkStatus();
}

// "%2F" -> "/".
bool DecodePercent(absl::string_view text, std::string* decoded) {
  decoded->clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded->push_back(text[i]);
      continue;
    }
    const absl::string_view digits = text.substr(i + 1, 2);
    if (digits.size() < 2 || !std::all_of(digits.begin(), digits.end(), absl::ascii_isxdigit)) {
      return false;
    }
    decoded->append(absl::HexStringToBytes(digits));
    i += 2;
  }
  return true;
}

// "name=value,name=value", with codes such as %2C, as OpenTelemetry's variables have it.
absl::StatusOr<Pairs> ReadPairs(const std::string& name, absl::string_view text) {
  Pairs pairs;
  for (absl::string_view pair : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const size_t equals = pair.find('=');
    std::string value;
    const absl::string_view key = absl::StripAsciiWhitespace(pair.substr(0, equals));
    if (equals == absl::string_view::npos || key.empty() ||
        !DecodePercent(absl::StripAsciiWhitespace(pair.substr(equals + 1)), &value) ||
        !IsValidUtf8({key.data(), key.size()}) || !IsValidUtf8(value)) {
      // Without the text: it may have a password.
      return absl::OutOfRangeError(
          absl::StrCat(name, ": write name=value, further ones after a comma, with % codes"));
    }
    pairs.emplace_back(key, std::move(value));
  }
  return pairs;
}

absl::Status ReadHeaders(const ReadVariable& variable, OtlpOptions* options) {
  std::string name = "OTEL_EXPORTER_OTLP_TRACES_HEADERS";
  if (variable(name).empty()) name = "OTEL_EXPORTER_OTLP_HEADERS";
  ASSIGN_OR_RETURN(options->headers, ReadPairs(name, variable(name)));
  for (auto& [key, value] : options->headers) {
    absl::AsciiStrToLower(&key);
    const bool is_key = std::all_of(key.begin(), key.end(), [](char c) {
      return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
    });
    if (!is_key || !std::all_of(value.begin(), value.end(), absl::ascii_isprint) ||
        absl::StartsWith(key, "grpc-")) {
      return absl::OutOfRangeError(absl::StrCat(
          name,
          ": names have letters, digits, '-', '_' and '.', and do not begin with grpc-; "
          "values are printable"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadResource(const ReadVariable& variable, OtlpOptions* options) {
  ASSIGN_OR_RETURN(options->resource,
                   ReadPairs("OTEL_RESOURCE_ATTRIBUTES", variable("OTEL_RESOURCE_ATTRIBUTES")));
  const auto find = [&](absl::string_view key) {
    return std::find_if(options->resource.begin(), options->resource.end(),
                        [key](const auto& pair) { return pair.first == key; });
  };
  const std::string service = variable("OTEL_SERVICE_NAME");
  if (const auto named = find("service.name"); named == options->resource.end()) {
    options->resource.emplace_back("service.name", service.empty() ? "quire" : service);
  } else if (!service.empty()) {
    named->second = service;
  }
  if (find("service.version") == options->resource.end()) {
    options->resource.emplace_back("service.version", kVersion);
  }
  return absl::OkStatus();
}

}  // namespace

std::string OtlpOptions::origin() const {
  return absl::StrCat(uses_tls ? "https://" : "http://", server.ToString());
}

absl::StatusOr<OtlpOptions> ReadOtlpOptions(absl::string_view endpoint, double sample_ratio,
                                            const ReadVariable& variable) {
  OtlpOptions options;
  RETURN_IF_ERROR(ReadEndpoint(endpoint, &options));
  RETURN_IF_ERROR(ReadHeaders(variable, &options));
  RETURN_IF_ERROR(ReadResource(variable, &options));
  options.sample_ratio = sample_ratio;
  options.ca_file = variable("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE");
  if (options.ca_file.empty()) options.ca_file = variable("OTEL_EXPORTER_OTLP_CERTIFICATE");
  if (options.ca_file.empty()) options.ca_file = CertificateFile(variable);
  return options;
}

}  // namespace quire

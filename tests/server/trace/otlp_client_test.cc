// One export: what it says to a collector, and how it ends where there is none that answers.
#include "server/trace/otlp_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "kernels/base/clock.h"
#include "tests/server/wire/client/scripted_server.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

OtlpOptions OptionsFor(const std::string& scheme, int port,
                       const std::map<std::string, std::string>& variables = {}) {
  return *ReadOtlpOptions(absl::StrCat(scheme, "://127.0.0.1:", port), 1,
                          [&](const std::string& name) {
                            const auto found = variables.find(name);
                            return found == variables.end() ? "" : found->second;
                          });
}

TEST(OtlpClientTest, AnotherThreadEndsACallThatIsNotAnswered) {
  std::optional<OtlpClient> client;
  const ScriptedServer server([&](const std::string&) {
    client->EndBy(MonotonicNow());
    return "";
  });
  client.emplace(OptionsFor("http", server.port()));
  const absl::Status status = client->Export("spans").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(client->Export("more").status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(OtlpClientTest, WhatIsNoHttp2IsUnavailable) {
  const ScriptedServer server([](const std::string& first_bytes) {
    EXPECT_THAT(first_bytes, HasSubstr("PRI * HTTP/2.0"));
    return "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
  });
  OtlpClient client(OptionsFor("http", server.port()));
  const absl::Status status = client.Export("spans").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("this is not HTTP/2"));
}

TEST(OtlpClientTest, AnAnswerHasABound) {
  const ScriptedServer server([](const std::string&) {
    const std::string status_200 = "\x88";
    std::string bytes =
        Http2Frame(FrameType::kSettings, "") + Http2Frame(FrameType::kHeaders, status_200);
    for (int i = 0; i < 5; ++i) bytes += Http2Frame(FrameType::kData, std::string(16 << 10, 'a'));
    return bytes;  // and the answer goes on
  });
  OtlpClient client(OptionsFor("http", server.port()));
  const absl::Status status = client.Export("spans").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("longer than 64 KiB"));
}

TEST(OtlpClientTest, ACaFileThatCannotBeReadIsNamed) {
  OtlpClient client(
      OptionsFor("https", 1, {{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/nonexistent/ca.pem"}}));
  const absl::Status status = client.Export("spans").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nonexistent/ca.pem: "));
}

}  // namespace
}  // namespace quire

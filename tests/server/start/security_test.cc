// The settings about who may use the server, and the sentence of every mistake.
#include "server/start/security.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "absl/time/clock.h"
#include "kernels/base/clock.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

PeerAddress Local() {
  sockaddr_storage address = {};
  address.ss_family = AF_UNIX;
  return PeerAddress::From(address);
}

std::string OpenError(const Settings& settings) {
  const absl::Status status = Security::Open(settings).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

absl::StatusCode CodeOf(const Security& security, absl::string_view path,
                        const Credentials& credentials = {}) {
  return security.gate().Admit(path, credentials).status().code();
}

TEST(SecurityTest, WithoutKeysTheModelIsForEverybodyAndTheRestForThisMachine) {
  const auto security = Security::Open({});
  ASSERT_TRUE(security.ok()) << security.status();
  EXPECT_EQ((*security)->tls(), nullptr);
  EXPECT_TRUE((*security)->TakesPlaintext(PeerAddress()));
  EXPECT_EQ(CodeOf(**security, "/quire.v1.Inference/Generate"), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOf(**security, "/quire.v1.Admin/FlushPrefixCache"),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(CodeOf(**security, "/quire.v1.Admin/FlushPrefixCache", {.peer = Local()}),
            absl::StatusCode::kOk);
}

TEST(SecurityTest, TheSettingsOfHealthAndReflection) {
  const std::string path = testing::TempDir() + "/quire_security_test_" + std::to_string(getpid());
  std::ofstream(path) << R"({"key": "a-key-of-somebody", "name": "somebody"})";
  Settings settings;
  settings.api_key_file = path;
  const std::string health = "/grpc.health.v1.Health/Check";
  const std::string reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
  auto security = *Security::Open(settings);
  EXPECT_EQ(CodeOf(*security, health), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOf(*security, reflection), absl::StatusCode::kUnauthenticated);
  settings.health_access = "key";
  settings.reflection_access = "off";
  security = *Security::Open(settings);
  EXPECT_EQ(CodeOf(*security, health), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(CodeOf(*security, reflection, {.bearer_token = "a-key-of-somebody"}),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(CodeOf(*security, health, {.bearer_token = "a-key-of-somebody"}),
            absl::StatusCode::kOk);
  std::ofstream(path) << R"({"key": "another-key-of-them", "name": "somebody"})";
  security->Reload();  // SIGHUP
  const auto knows = [&](const char* key) {
    return CodeOf(*security, health, {.bearer_token = key}) == absl::StatusCode::kOk;
  };
  const absl::Time give_up = MonotonicNow() + absl::Minutes(1);
  while (!knows("another-key-of-them") && MonotonicNow() < give_up) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_TRUE(knows("another-key-of-them"));
  // And without: its own thread looks after the file.
  std::ofstream(path) << R"({"key": "the-third-key-of-them", "name": "somebody"})";
  while (!knows("the-third-key-of-them") && MonotonicNow() < give_up) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_TRUE(knows("the-third-key-of-them"));
  EXPECT_FALSE(knows("another-key-of-them"));
  std::remove(path.c_str());
}

TEST(SecurityTest, MistakesNameTheFlag) {
  Settings settings;
  settings.api_key_file = "/nonexistent/keys";
  EXPECT_THAT(OpenError(settings), StartsWith("--api-key-file: /nonexistent/keys: No such file"));
  settings = {};
  settings.tls_cert = "/x";
  EXPECT_THAT(OpenError(settings), StartsWith("--tls-cert needs --tls-key"));
  settings.tls_key = "/y";
  EXPECT_THAT(OpenError(settings), StartsWith("--tls-cert: /x: No such file"));
  settings.tls_cert = "";
  EXPECT_THAT(OpenError(settings), StartsWith("--tls-key needs --tls-cert"));
  settings = {};
  settings.tls_client_ca = "/z";
  EXPECT_THAT(OpenError(settings), StartsWith("--tls-client-ca needs"));
  settings = {};
  settings.plaintext = "off";
  EXPECT_THAT(OpenError(settings), StartsWith("--plaintext: off leaves no way in"));
}

TEST(SecurityTest, PlaintextOfThisMachine) {
  Settings settings;
  settings.plaintext = "local";
  const auto security = *Security::Open(settings);
  EXPECT_TRUE(security->TakesPlaintext(Local()));
  EXPECT_FALSE(security->TakesPlaintext(PeerAddress()));
}

TEST(SecurityTest, OperatorsAreWarned) {
  Settings settings;
  EXPECT_THAT(SecurityWarnings(settings),
              ElementsAre(HasSubstr("whoever reaches 0.0.0.0 may use the model")));
  for (const char* host : {"127.0.0.1", "127.1.2.3", "localhost", "::1"}) {
    settings.host = host;
    EXPECT_THAT(SecurityWarnings(settings), IsEmpty()) << host;
  }
  settings.host = "::";
  settings.api_key_file = "keys";
  EXPECT_THAT(SecurityWarnings(settings), ElementsAre(HasSubstr("in the clear")));
  settings.tls_cert = "cert";
  EXPECT_THAT(SecurityWarnings(settings), IsEmpty());
}

}  // namespace
}  // namespace quire

// Requests to other servers: TLS and whom it trusts, addresses that do not answer, answers that are
// too long, names that are looked up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "server/wire/client/http1_client_connection.h"
#include "server/wire/client/http2_client_connection.h"
#include "server/wire/client/server_lookup.h"
#include "server/wire/tls/client_context.h"
#include "tests/server/wire/client/scripted_server.h"
#include "tests/server/wire/tls/test_certificates.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

const IoLoop::Clock::time_point kEver = IoLoop::Clock::now() + std::chrono::hours(1);

class KeptAnswer final : public AnswerSink {
 public:
  void OnBody(std::string_view bytes) override { body.append(bytes); }
  void OnEnd(const AnswerEnd& its_end) override {
    end = its_end;
    has_ended = true;
  }

  std::string body;
  AnswerEnd end;
  bool has_ended = false;
};

template <typename Connection>
KeptAnswer Ask(const ServerAddress& server) {
  IoLoop loop;
  KeptAnswer answer;
  Connection connection(&loop, server);
  connection.Start({.method = "GET", .path = "/"}, &answer);
  while (!answer.has_ended) loop.RunUntil(kEver);
  return answer;
}

std::string Ok(const std::string&) { return "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"; }

std::string FileWith(const std::string& name, const std::string& text) {
  const std::string path = absl::StrCat(testing::TempDir(), "/quire_client_", name, getpid());
  std::ofstream(path) << text;
  return path;
}

class TlsClientTest : public testing::Test {
 protected:
  TlsClientTest() { std::signal(SIGPIPE, SIG_IGN); }

  PemTexts Texts(const std::string& names) const {
    const TestCertificate server({.common_name = "server", .alternative_names = names}, &ca_);
    PemTexts texts;
    texts.certificate = server.CertificatePem();
    texts.key = server.KeyPem();
    return texts;
  }
  // Asks the server under that name, with these files.
  static KeptAnswer AskAs(const ScriptedServer& server, const std::string& host,
                          const ClientTlsFiles& files) {
    ServerAddress address = server.Address(host);
    address.tls = *MakeClientContext(files);
    return Ask<Http1ClientConnection>(address);
  }

  const TestCertificate ca_{{.common_name = "the CA", .is_ca = true}};
  const std::string ca_file_ = FileWith("ca", ca_.CertificatePem());
};

TEST_F(TlsClientTest, ACertificateOfTheCaForTheName) {
  const ScriptedServer server(Ok, Texts("DNS:collector.example,IP:127.0.0.1"));
  for (const char* host : {"collector.example", "127.0.0.1"}) {
    const KeptAnswer answer = AskAs(server, host, {.ca = ca_file_});
    EXPECT_EQ(answer.end.problem, "") << host;
    EXPECT_EQ(answer.body, "ok") << host;
  }
}

TEST_F(TlsClientTest, AnUnknownCa) {
  const ScriptedServer server(Ok, Texts("DNS:collector.example"));
  const TestCertificate other({.common_name = "another CA", .is_ca = true});
  for (const std::string& ca : {FileWith("other", other.CertificatePem()), std::string()}) {
    const KeptAnswer answer = AskAs(server, "collector.example", {.ca = ca});
    EXPECT_EQ(answer.end.http_status, 0);
    EXPECT_EQ(answer.end.problem,
              "TLS: certificate verify failed: unable to get local issuer certificate");
  }
}

TEST_F(TlsClientTest, AWrongName) {
  const ScriptedServer server(Ok, Texts("DNS:collector.example"));
  EXPECT_EQ(AskAs(server, "elsewhere.example", {.ca = ca_file_}).end.problem,
            "TLS: certificate verify failed: hostname mismatch");
  EXPECT_EQ(AskAs(server, "127.0.0.1", {.ca = ca_file_}).end.problem,
            "TLS: certificate verify failed: IP address mismatch");
}

TEST_F(TlsClientTest, AServerThatWantsACertificate) {
  PemTexts texts = Texts("DNS:collector.example");
  texts.client_ca = ca_.CertificatePem();
  texts.require_client_certificate = true;
  const ScriptedServer server(Ok, texts);
  const TestCertificate client({.common_name = "client"}, &ca_);
  EXPECT_EQ(AskAs(server, "collector.example",
                  {.ca = ca_file_,
                   .certificate = FileWith("certificate", client.CertificatePem()),
                   .key = FileWith("key", client.KeyPem())})
                .body,
            "ok");
  EXPECT_THAT(AskAs(server, "collector.example", {.ca = ca_file_}).end.problem,
              HasSubstr("certificate required"));
}

TEST_F(TlsClientTest, AServerWithoutTls) {
  const ScriptedServer server(Ok);
  EXPECT_THAT(AskAs(server, "collector.example", {.ca = ca_file_}).end.problem,
              HasSubstr("others have http://"));
}

TEST_F(TlsClientTest, FilesThatCannotBeUsedAreNamed) {
  const std::string none = FileWith("none", "x");
  const std::string certificate = FileWith("certificate", ca_.CertificatePem());
  const TestCertificate other({.common_name = "other"}, &ca_);
  const std::string other_key = FileWith("other_key", other.KeyPem());
  EXPECT_EQ(MakeClientContext({.ca = "/nonexistent/ca"}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(MakeClientContext({.ca = "/nonexistent/ca"}).status().message()),
              HasSubstr("/nonexistent/ca: "));
  EXPECT_THAT(std::string(MakeClientContext({.ca = none}).status().message()), HasSubstr(none));
  EXPECT_THAT(
      std::string(MakeClientContext({.certificate = none, .key = other_key}).status().message()),
      HasSubstr(none));
  EXPECT_THAT(
      std::string(
          MakeClientContext({.certificate = certificate, .key = other_key}).status().message()),
      HasSubstr(other_key));
}

TEST(ClientSocketTest, TheNextAddressIsTriedWhereNobodyListens) {
  const ScriptedServer server(Ok);
  ServerAddress address = server.Address();
  address.addresses.insert(address.addresses.begin(), 2, NobodysAddress());
  EXPECT_EQ(Ask<Http1ClientConnection>(address).body, "ok");
  address.addresses.pop_back();
  EXPECT_EQ(Ask<Http1ClientConnection>(address).end.problem, "nothing listens there");
}

// Status 103 and a field with a long value, in HPACK.
std::string EarlyHints(size_t num_value_bytes) {
  const size_t rest = num_value_bytes - 127;
  std::string block(
      "\x08\x03"
      "103\x00\x01x\x7f",
      9);
  block.push_back(static_cast<char>(rest % 128 | 128));
  block.push_back(static_cast<char>(rest / 128));
  return Http2Frame(FrameType::kHeaders, block + std::string(num_value_bytes, 'a'));
}

TEST(Http2ClientConnectionTest, AnAnswerHasABoundForItsHeaders) {
  const ScriptedServer server([](const std::string&) {
    std::string bytes = Http2Frame(FrameType::kSettings, "");
    for (int i = 0; i < 7; ++i) bytes += EarlyHints(10'000);
    return bytes;
  });
  EXPECT_EQ(Ask<Http2ClientConnection>(server.Address()).end.problem,
            "the answer's headers are too long");
}

TEST(IoLoopTest, AnotherThreadEndsTheWait) {
  IoLoop loop;
  std::thread waker([&] { loop.Wake(); });
  loop.RunUntil(kEver);
  waker.join();
  loop.Wake();
  loop.RunUntil(kEver);
}

absl::StatusOr<ServerAddress> LookUp(const HostPort& server) {
  IoLoop loop;
  const ServerLookup lookup(&loop, server);
  while (!lookup.result().has_value()) loop.RunUntil(kEver);
  return *lookup.result();
}

TEST(ServerLookupTest, NamesAndAddresses) {
  for (const char* host : {"localhost", "127.0.0.1"}) {
    const absl::StatusOr<ServerAddress> server = LookUp({.host = host, .port = 80});
    ASSERT_TRUE(server.ok()) << server.status();
    EXPECT_EQ(server->authority, absl::StrCat(host, ":80"));
    EXPECT_FALSE(server->addresses.empty());
  }
  EXPECT_EQ(LookUp({.host = "::1", .port = 80})->authority, "[::1]:80");
  const absl::Status none = LookUp({.host = "no..name", .port = 80}).status();
  EXPECT_TRUE(absl::IsUnavailable(none));
  EXPECT_THAT(std::string(none.message()), HasSubstr("no host no..name: "));
}

TEST(ServerLookupTest, NobodyWaitsForOneThatIsGivenUp) {
  for (int i = 0; i < 20; ++i) {
    IoLoop loop;
    const ServerLookup lookup(&loop, {.host = "localhost", .port = 80});
  }
}

}  // namespace
}  // namespace quire

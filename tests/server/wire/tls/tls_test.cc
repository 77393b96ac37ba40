// TLS on a pair of sockets: handshakes, bytes both ways, versions, ALPN, client certificates,
// renewed files, and what is wrong with files at the start.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "kernels/base/check.h"
#include "server/wire/tls/certificate_name.h"
#include "server/wire/tls/tls_context.h"
#include "tests/server/wire/tls/test_certificates.h"

namespace quire {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using State = TlsIo::State;

struct ClientOptions {
  std::string alpn = "\x02h2";  // as on the wire; empty: none
  int max_version = TLS1_3_VERSION;
  const TestCertificate* certificate = nullptr;
};

// The client's end of a connection.
class Client {
 public:
  Client(int fd, const ClientOptions& options) : context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_set_max_proto_version(context_, options.max_version);
    SSL_CTX_set_security_level(context_, 0);  // so that it is the server that refuses
    if (!options.alpn.empty()) {
      SSL_CTX_set_alpn_protos(context_, reinterpret_cast<const unsigned char*>(options.alpn.data()),
                              static_cast<unsigned>(options.alpn.size()));
    }
    if (options.certificate != nullptr) {
      SSL_CTX_use_certificate(context_, options.certificate->certificate());
      SSL_CTX_use_PrivateKey(context_, options.certificate->key());
    }
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, fd);
    SSL_set_connect_state(ssl_);
  }
  ~Client() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // 1: done; else what OpenSSL says.
  int Handshake() {
    return Call([this] { return SSL_do_handshake(ssl_); });
  }
  std::string Read() {
    char buffer[4096];
    size_t size = 0;
    Call([&] { return SSL_read_ex(ssl_, buffer, sizeof(buffer), &size); });
    return std::string(buffer, size);
  }
  bool Write(const std::string& text) {
    size_t size = 0;
    return Call([&] { return SSL_write_ex(ssl_, text.data(), text.size(), &size); }) == 1;
  }
  void Close() { SSL_shutdown(ssl_); }
  SSL* ssl() { return ssl_; }
  std::string ServerName() {
    return CertificateName(SSL_get0_peer_certificate(ssl_)).value_or("none");
  }

 private:
  template <typename F>
  static int Call(F function) {
    ERR_clear_error();
    return function();
  }

  SSL_CTX* context_;
  SSL* ssl_;
};

// A server's stream and a client at the two ends of a connection.
class Connection {
 public:
  Connection(TlsContext& context, const ClientOptions& options = {}) {
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds_), 0);
    context.Look();
    server = context.NewStream(fds_[0]);
    client = std::make_unique<Client>(fds_[1], options);
  }
  ~Connection() {
    server.reset();
    client.reset();
    close(fds_[0]);
    if (fds_[1] >= 0) close(fds_[1]);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // How the server's handshake ends.
  State Shake() {
    for (int round = 0; round < 20; ++round) {
      client->Handshake();
      const TlsIo io = server->Handshake();
      if (io.state == State::kDone || io.state == State::kError) {
        client->Handshake();
        return io.state;
      }
      EXPECT_EQ(io.state, State::kWantRead);
    }
    return State::kWantRead;
  }
  // The text that the server reads, until there is no more; ends with the state in brackets.
  std::string ServerReads() {
    std::string text;
    char buffer[1000];
    while (true) {
      const TlsIo io = server->Read(absl::MakeSpan(buffer));
      if (io.state != State::kDone) return absl::StrCat(text, "[", static_cast<int>(io.state), "]");
      EXPECT_GT(io.num_bytes, 0);
      text.append(buffer, io.num_bytes);
    }
  }
  void HangUp() {
    close(fds_[1]);
    fds_[1] = -1;
  }
  int client_fd() const { return fds_[1]; }

  std::unique_ptr<TlsStream> server;
  std::unique_ptr<Client> client;

 private:
  int fds_[2];
};

class TlsTest : public testing::Test {
 protected:
  TlsTest() {
    signal(SIGPIPE, SIG_IGN);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_)));
    Write(files_.certificate, server_.CertificatePem());
    Write(files_.key, server_.KeyPem());
  }
  ~TlsTest() override {
    for (const std::string& path : {files_.certificate, files_.key, path_ + ".ca"}) {
      std::remove(path.c_str());
    }
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("after"));
  }

  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  void TrustClientsOf(const TestCertificate& ca) {
    files_.client_ca = path_ + ".ca";
    Write(files_.client_ca, ca.CertificatePem());
  }
  std::unique_ptr<TlsContext> Open(ClientCertificate mode = ClientCertificate::kOptional) {
    absl::StatusOr<std::unique_ptr<TlsContext>> context = TlsContext::Open(files_, mode);
    EXPECT_TRUE(context.ok()) << context.status();
    return *std::move(context);
  }
  std::string OpenError() {
    const absl::Status status = TlsContext::Open(files_, ClientCertificate::kOptional).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }
  // A second later than the last one.

  const std::string path_ = testing::TempDir() + "/quire_tls_test_" + std::to_string(getpid());
  TlsFiles files_ = {path_ + ".cert", path_ + ".key", ""};
  const TestCertificate server_{{.common_name = "first.example"}};
  const TestCertificate ca_{{.common_name = "the CA", .is_ca = true}};
  std::ostringstream log_;
};

TEST_F(TlsTest, BytesGoBothWays) {
  const auto context = Open();
  Connection connection(*context);
  ASSERT_EQ(connection.Shake(), State::kDone) << connection.server->error();
  EXPECT_EQ(connection.server->protocol(), "h2");
  EXPECT_EQ(connection.server->client_name(), std::nullopt);
  EXPECT_EQ(connection.client->ServerName(), "first.example");
  ASSERT_TRUE(connection.client->Write("question"));
  EXPECT_EQ(connection.ServerReads(), "question[1]");
  const TlsIo written = connection.server->Write("answer");
  EXPECT_EQ(written.state, State::kDone);
  EXPECT_EQ(written.num_bytes, 6);
  EXPECT_EQ(connection.client->Read(), "answer");
}

TEST_F(TlsTest, TheEndOfAConnection) {
  const auto context = Open();
  Connection polite(*context);
  ASSERT_EQ(polite.Shake(), State::kDone);
  ASSERT_TRUE(polite.client->Write("last"));
  polite.client->Close();
  EXPECT_EQ(polite.ServerReads(), "last[3]");

  Connection rude(*context);
  ASSERT_EQ(rude.Shake(), State::kDone);
  ASSERT_TRUE(rude.client->Write("last"));
  rude.HangUp();
  EXPECT_EQ(rude.ServerReads(), "last[3]") << "HTTP says itself where a message ends";
  EXPECT_EQ(rude.server->Write("late").state, State::kError);
  EXPECT_THAT(rude.server->error(), HasSubstr("closed the connection"));
  rude.server->SendClose();

  Connection told(*context);
  ASSERT_EQ(told.Shake(), State::kDone);
  told.server->SendClose();
  EXPECT_EQ(told.client->Read(), "");
  EXPECT_NE(SSL_get_shutdown(told.client->ssl()) & SSL_RECEIVED_SHUTDOWN, 0);

  Connection early(*context);
  EXPECT_EQ(early.server->Handshake().state, State::kWantRead);
  early.HangUp();
  EXPECT_EQ(early.server->Handshake().state, State::kError);
  EXPECT_THAT(early.server->error(), HasSubstr("closed the connection in the handshake"));
}

TEST_F(TlsTest, AFullConnectionSaysWhatToWaitFor) {
  const auto context = Open();
  Connection connection(*context);
  ASSERT_EQ(connection.Shake(), State::kDone);
  const std::string block(100'000, 'x');
  size_t num_written = 0;
  TlsIo io = {State::kDone};
  while (io.state == State::kDone) {
    io = connection.server->Write(block);
    num_written += io.num_bytes;
    ASSERT_LT(num_written, 100'000'000);
  }
  EXPECT_EQ(io.state, State::kWantWrite);
  EXPECT_EQ(io.num_bytes, 0);
  // The same bytes from elsewhere go on where the last call stopped.
  const std::string copy = block;
  size_t num_read = 0;
  bool done = false;
  while (!done) {
    for (std::string text = connection.client->Read(); !text.empty();
         text = connection.client->Read()) {
      num_read += text.size();
    }
    io = connection.server->Write(copy);
    num_written += io.num_bytes;
    done = io.state == State::kDone;
    ASSERT_NE(io.state, State::kError) << connection.server->error();
  }
  for (std::string text = connection.client->Read(); !text.empty();
       text = connection.client->Read()) {
    num_read += text.size();
  }
  EXPECT_EQ(num_read, num_written);
}

TEST_F(TlsTest, WhatIsNotTlsIsAnError) {
  const auto context = Open();
  Connection connection(*context);
  ASSERT_EQ(write(connection.client_fd(), "\x16GET / HTTP/1.1\r\n\r\n", 19), 19);
  EXPECT_EQ(connection.server->Handshake().state, State::kError);
  EXPECT_NE(connection.server->error(), "");
}

TEST_F(TlsTest, VersionsFrom1_2) {
  const auto context = Open();
  Connection new_enough(*context, {.max_version = TLS1_2_VERSION});
  EXPECT_EQ(new_enough.Shake(), State::kDone) << new_enough.server->error();
  EXPECT_STREQ(SSL_get_version(new_enough.client->ssl()), "TLSv1.2");
  EXPECT_THAT(SSL_get_cipher_name(new_enough.client->ssl()), StartsWith("ECDHE-"));
  Connection old(*context, {.max_version = TLS1_1_VERSION});
  EXPECT_EQ(old.Shake(), State::kError);
}

TEST_F(TlsTest, TheProtocolIsAgreedOn) {
  const auto context = Open();
  const auto agreed = [&](const std::string& offered) {
    Connection connection(*context, {.alpn = offered});
    return connection.Shake() == State::kDone ? connection.server->protocol() : "refused";
  };
  EXPECT_EQ(agreed("\x02h2"), "h2");
  EXPECT_EQ(agreed("\x08http/1.1"), "http/1.1");
  EXPECT_EQ(agreed("\x08http/1.1\x02h2"), "h2") << "the server's order counts";
  EXPECT_EQ(agreed("\x08grpc-exp\x02h2"), "h2");
  EXPECT_EQ(agreed(""), "") << "openssl s_client and old programs";
  EXPECT_EQ(agreed("\x03"
                   "foo"),
            "refused");
}

TEST_F(TlsTest, ClientsShowCertificatesOfTheCa) {
  TrustClientsOf(ca_);
  const auto context = Open();
  const TestCertificate known({.common_name = "x", .alternative_names = "DNS:web.example"}, &ca_);
  const TestCertificate other_ca({.common_name = "another CA", .is_ca = true});
  const TestCertificate unknown({.common_name = "web.example"}, &other_ca);
  const TestCertificate expired({.common_name = "web.example", .has_expired = true}, &ca_);
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    Connection good(*context, {.max_version = version, .certificate = &known});
    ASSERT_EQ(good.Shake(), State::kDone) << good.server->error();
    EXPECT_EQ(good.server->client_name(), "web.example");
    Connection none(*context, {.max_version = version});
    ASSERT_EQ(none.Shake(), State::kDone) << none.server->error();
    EXPECT_EQ(none.server->client_name(), std::nullopt);
    for (const TestCertificate* bad : {&unknown, &expired}) {
      Connection refused(*context, {.max_version = version, .certificate = bad});
      EXPECT_EQ(refused.Shake(), State::kError);
      EXPECT_THAT(refused.server->error(), HasSubstr("certificate verify failed"));
    }
  }
}

TEST_F(TlsTest, CertificatesMayBeRequired) {
  TrustClientsOf(ca_);
  const auto context = Open(ClientCertificate::kRequired);
  Connection none(*context);
  EXPECT_EQ(none.Shake(), State::kError);
  EXPECT_THAT(none.server->error(), HasSubstr("peer did not return a certificate"));
}

TEST_F(TlsTest, ASessionIsNeverResumed) {
  TrustClientsOf(ca_);
  const auto context = Open();
  const TestCertificate known({.common_name = "web.example"}, &ca_);
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    Connection first(*context, {.max_version = version, .certificate = &known});
    ASSERT_EQ(first.Shake(), State::kDone);
    first.server->Write("x");
    first.client->Read();  // session tickets would come with it
    SSL_SESSION* session = SSL_get1_session(first.client->ssl());
    Connection second(*context, {.max_version = version});
    SSL_set_session(second.client->ssl(), session);
    if (second.Shake() == State::kDone) {
      EXPECT_EQ(SSL_session_reused(second.client->ssl()), 0);
      EXPECT_EQ(second.server->client_name(), std::nullopt);
    }
    SSL_SESSION_free(session);
  }
}

TEST_F(TlsTest, NewFilesAreForNewConnections) {
  const auto context = Open();
  Connection old(*context);
  ASSERT_EQ(old.Shake(), State::kDone);
  const TestCertificate renewed({.common_name = "second.example"});
  Write(files_.certificate, renewed.CertificatePem());
  Write(files_.key, renewed.KeyPem());
  Connection fresh(*context);
  ASSERT_EQ(fresh.Shake(), State::kDone);
  EXPECT_EQ(fresh.client->ServerName(), "second.example");
  EXPECT_THAT(log_.str(), HasSubstr("read the certificate " + files_.certificate));
  ASSERT_TRUE(old.client->Write("still here"));
  EXPECT_EQ(old.ServerReads(), "still here[1]");
}

TEST_F(TlsTest, FilesThatDoNotFitChangeNothing) {
  const auto context = Open();
  const TestCertificate renewed({.common_name = "second.example"});
  Write(files_.certificate, renewed.CertificatePem());  // its key comes later
  for (int i = 0; i < 3; ++i) {
    Connection connection(*context);
    ASSERT_EQ(connection.Shake(), State::kDone);
    EXPECT_EQ(connection.client->ServerName(), "first.example");
  }
  const std::string log = log_.str();
  EXPECT_THAT(log, HasSubstr("--tls-key: does not fit"));
  EXPECT_EQ(log.find("--tls-key"), log.rfind("--tls-key")) << "one line: " << log;
  Write(files_.key, renewed.KeyPem());
  context->Reload();
  Connection connection(*context);
  ASSERT_EQ(connection.Shake(), State::kDone);
  EXPECT_EQ(connection.client->ServerName(), "second.example");
}

TEST_F(TlsTest, AnotherClientCaHoldsForNewConnections) {
  TrustClientsOf(ca_);
  const auto context = Open();
  const TestCertificate other_ca({.common_name = "another CA", .is_ca = true});
  const TestCertificate known({.common_name = "web.example"}, &ca_);
  TrustClientsOf(other_ca);
  Connection connection(*context, {.certificate = &known});
  EXPECT_EQ(connection.Shake(), State::kError);
}

TEST_F(TlsTest, WhatIsWrongAtTheStart) {
  const TestCertificate other({.common_name = "other"});
  const auto with = [&](const std::string& certificate, const std::string& key) {
    Write(files_.certificate, certificate);
    Write(files_.key, key);
    return OpenError();
  };
  const std::string certificate = server_.CertificatePem();
  const std::string key = server_.KeyPem();
  EXPECT_THAT(with(certificate, other.KeyPem()), StartsWith("--tls-key: does not fit"));
  EXPECT_THAT(with(certificate, ""), StartsWith("--tls-key: has no private key"));
  EXPECT_THAT(with(certificate, certificate), StartsWith("--tls-key: has no private key"));
  EXPECT_THAT(with(certificate, server_.KeyPem("secret")), HasSubstr("without a password"));
  EXPECT_THAT(with("", key), StartsWith("--tls-cert: has no certificate"));
  EXPECT_THAT(with(key, key), StartsWith("--tls-cert: has no certificate"));
  EXPECT_THAT(with(certificate.substr(0, certificate.size() / 2), key), StartsWith("--tls-cert: "));
  EXPECT_THAT(
      with(certificate + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", key),
      StartsWith("--tls-cert: certificate 2: "));
  EXPECT_THAT(with(std::string(2 << 20, 'x'), key), HasSubstr("at most 1,048,576 are read"));
  Write(files_.certificate, certificate);
  files_.client_ca = files_.key;
  EXPECT_THAT(OpenError(), StartsWith("--tls-client-ca: has no certificate"));
  files_.client_ca = "/dev/zero";
  EXPECT_THAT(OpenError(), AllOf(StartsWith("--tls-client-ca: "), HasSubstr("regular file")));
  files_.key = "/nonexistent/key";
  EXPECT_THAT(OpenError(), StartsWith("--tls-key: /nonexistent/key: No such file"));
}

TEST(CertificateNameTest, TheFirstAlternativeNameElseTheCommonName) {
  const auto name = [](const std::string& common_name, const std::string& alternative_names = "") {
    const TestCertificate certificate(
        {.common_name = common_name, .alternative_names = alternative_names});
    return CertificateName(certificate.certificate()).value_or("none");
  };
  EXPECT_EQ(name("alice"), "alice");
  EXPECT_EQ(name("alice", "DNS:a.example,URI:spiffe://x/y"), "a.example");
  EXPECT_EQ(name("alice", "URI:spiffe://x/y,DNS:a.example"), "spiffe://x/y");
  EXPECT_EQ(name("alice", "email:a@example"), "a@example");
  EXPECT_EQ(name("alice", "IP:10.0.0.1"), "alice") << "an address is nobody's name";
  EXPECT_EQ(name(""), "none");
  EXPECT_EQ(name(std::string("alice\0.evil", 11)), "none");
  EXPECT_EQ(name("al\nice"), "none");
  EXPECT_EQ(name("al\xc3\xad"
                 "ce"),
            "none");
}

}  // namespace
}  // namespace quire

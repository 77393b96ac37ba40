// What a client shows of itself, and whom it trusts: through gRPC, in the clear and with TLS.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "quire/v1/inference.grpc.pb.h"
#include "tests/server/wire/tls/test_certificates.h"
#include "tools/client/credentials.h"
#include "tools/client/failure.h"
#include "tools/client/inference_client.h"

namespace quire::client {
namespace {

using ::testing::HasSubstr;

// Answers who called: header, then certificate.
class EchoService final : public v1::Inference::Service {
 public:
  grpc::Status GetModel(grpc::ServerContext* call, const v1::GetModelRequest*,
                        v1::GetModelResponse* answer) override {
    const auto header = call->client_metadata().find("authorization");
    if (header != call->client_metadata().end()) {
      answer->set_name(std::string(header->second.data(), header->second.size()));
    }
    for (const grpc::string_ref& name : call->auth_context()->GetPeerIdentity()) {
      answer->add_aliases(std::string(name.data(), name.size()));
    }
    return grpc::Status::OK;
  }
};

class CredentialsTest : public testing::Test {
 protected:
  ~CredentialsTest() override {
    for (const char* name :
         {kKeyVariable, kCaVariable, kCertificateVariable, kCertificateKeyVariable}) {
      unsetenv(name);
    }
  }

  // Starts the server; its address.
  std::string Serve(const std::shared_ptr<grpc::ServerCredentials>& credentials) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", credentials, &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    return absl::StrCat("localhost:", port);
  }
  static absl::StatusOr<v1::GetModelResponse> Ask(const std::string& target) {
    return InferenceClient(target).GetModel(/*timeout_seconds=*/20);
  }
  static void SetFile(const char* variable, const std::string& text) {
    const std::string path = absl::StrCat(testing::TempDir(), "/quire_", variable, getpid());
    std::ofstream(path) << text;
    setenv(variable, path.c_str(), 1);
  }

  EchoService service_;
  std::unique_ptr<grpc::Server> server_;
  const TestCertificate ca_{{.common_name = "the CA", .is_ca = true}};
};

TEST_F(CredentialsTest, TheKeyOfTheEnvironmentGoesWithEveryCall) {
  const std::string target = Serve(grpc::InsecureServerCredentials());
  absl::StatusOr<v1::GetModelResponse> answer = Ask(target);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->name(), "");
  setenv(kKeyVariable, "a-key-of-mine\n", 1);
  InferenceClient client(target);
  for (int i = 0; i < 3; ++i) {
    answer = client.GetModel();
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->name(), "Bearer a-key-of-mine");
  }
}

TEST_F(CredentialsTest, TlsWithOurCaAndCertificate) {
  const TestCertificate server({.common_name = "localhost", .alternative_names = "DNS:localhost"},
                               &ca_);
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = ca_.CertificatePem();
  options.pem_key_cert_pairs = {{server.KeyPem(), server.CertificatePem()}};
  const std::string target = "https://" + Serve(grpc::SslServerCredentials(options));
  const absl::Status unknown = Ask(target).status();
  EXPECT_FALSE(unknown.ok()) << "the system does not know this CA";
  EXPECT_THAT(DescribeFailure(unknown, target), HasSubstr("name the CA's file with QUIRE_CA_FILE"))
      << unknown;
  SetFile(kCaVariable, ca_.CertificatePem());
  setenv(kKeyVariable, "a-key-of-mine", 1);
  absl::StatusOr<v1::GetModelResponse> answer = Ask(target);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->name(), "Bearer a-key-of-mine");
  EXPECT_EQ(answer->aliases_size(), 0);
  const TestCertificate client({.common_name = "x", .alternative_names = "DNS:web.example"}, &ca_);
  SetFile(kCertificateVariable, client.CertificatePem());
  SetFile(kCertificateKeyVariable, client.KeyPem());
  answer = Ask(target);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->aliases(), testing::ElementsAre("web.example"));
}

TEST_F(CredentialsTest, WhatNoKeyCanBeIsRefusedBeforeGrpcEndsTheProgram) {
  for (const char* key : {"", "a-key-of-mine", " a-key-of-mine\n"}) {
    setenv(kKeyVariable, key, 1);
    EXPECT_TRUE(CheckKeyVariable().ok()) << key;
  }
  for (const char* key : {"a key", "a\nkey", "schl\xc3\xbcssel", "a\x7f"}) {
    setenv(kKeyVariable, key, 1);
    EXPECT_THAT(std::string(CheckKeyVariable().message()), HasSubstr(kKeyVariable)) << key;
  }
}

TEST_F(CredentialsTest, FailuresOfTlsSayWhatToChange) {
  const auto said = [](const std::string& target) {
    return DescribeFailure(Ask(target).status(), target);
  };
  const TestCertificate server({.common_name = "x", .alternative_names = "DNS:elsewhere.example"},
                               &ca_);
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs = {{server.KeyPem(), server.CertificatePem()}};
  const std::string address = Serve(grpc::SslServerCredentials(options));
  EXPECT_THAT(said("https://" + address), HasSubstr("QUIRE_CA_FILE"));
  EXPECT_THAT(said(address), HasSubstr("wants TLS (https://" + address + ")"));
}

TEST_F(CredentialsTest, AServerThatWantsAKeyIsUnderstood) {
  const absl::Status refused(absl::StatusCode::kUnauthenticated, "who calls?");
  EXPECT_EQ(DescribeFailure(refused, "host:1"),
            "UNAUTHENTICATED: who calls?; put your key into QUIRE_API_KEY");
  setenv(kKeyVariable, "a-key-of-mine", 1);
  EXPECT_EQ(DescribeFailure(refused, "host:1"),
            "UNAUTHENTICATED: who calls?; put another into QUIRE_API_KEY");
}

TEST_F(CredentialsTest, FilesThatCannotBeReadAreNamed) {
  EXPECT_TRUE(CheckTlsVariables().ok());
  SetFile(kCertificateVariable, "x");
  EXPECT_THAT(std::string(CheckTlsVariables().message()), HasSubstr("has no certificate in PEM"));
  SetFile(kCertificateVariable, ca_.CertificatePem());
  EXPECT_THAT(std::string(CheckTlsVariables().message()),
              HasSubstr("QUIRE_CLIENT_CERT and QUIRE_CLIENT_KEY are needed together"));
  SetFile(kCertificateKeyVariable, ca_.CertificatePem());
  EXPECT_THAT(std::string(CheckTlsVariables().message()), HasSubstr("has no private key in PEM"));
  SetFile(kCertificateKeyVariable, ca_.KeyPem());
  EXPECT_TRUE(CheckTlsVariables().ok());
  SetFile(kCaVariable, "");
  EXPECT_THAT(std::string(CheckTlsVariables().message()), HasSubstr("QUIRE_CA_FILE: cannot read"));
  setenv(kCaVariable, "/nonexistent/ca", 1);
  EXPECT_THAT(std::string(CheckTlsVariables().message()), HasSubstr("No such file"));
}

}  // namespace
}  // namespace quire::client

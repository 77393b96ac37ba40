// Who may call what: every method of ours with every kind of caller, and what is refused by
// default.
#include "server/auth/gate.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "quire/v1/inference.pb.h"
#include "server/auth/method_role.h"
#include "vllm/control.pb.h"
#include "vllm/grpc/engine/vllm_engine.pb.h"
#include "vllm/inference.pb.h"

namespace quire {
namespace {

using google::protobuf::ServiceDescriptor;
using ::testing::HasSubstr;

constexpr char kUserKey[] = "the-key-of-the-user";
constexpr char kAdminKey[] = "the-key-of-the-admin";
constexpr char kBothKey[] = "the-key-of-the-boss";

std::vector<const ServiceDescriptor*> OwnServices() {
  std::vector<const ServiceDescriptor*> services;
  for (const auto* file :
       {v1::GenerateRequest::descriptor()->file(),
        vllm::grpc::engine::GenerateRequest::descriptor()->file(),
        vllm::GenerateRequest::descriptor()->file(), vllm::ServerInfo::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) services.push_back(file->service(i));
  }
  return services;
}

std::unique_ptr<KeyFile> Keys() {
  const std::string path = testing::TempDir() + "/quire_gate_test_" + std::to_string(getpid());
  std::ofstream(path)
      << R"({"key": "the-key-of-the-user", "name": "user"})"
      << "\n"
      << R"({"key": "the-key-of-the-admin", "name": "admin", "roles": ["admin"]})"
      << "\n"
      << R"({"key": "the-key-of-the-boss", "name": "boss", "roles": ["admin", "inference"]})"
      << "\n"
      << R"({"certificate": "ops.example", "name": "ops", "roles": ["admin"]})";
  absl::StatusOr<std::unique_ptr<KeyFile>> keys = KeyFile::Open(path);
  EXPECT_TRUE(keys.ok()) << keys.status();
  return *std::move(keys);
}

PeerAddress Local() {
  sockaddr_storage address = {};
  address.ss_family = AF_UNIX;
  return PeerAddress::From(address);
}

Credentials Key(absl::string_view key) { return {.bearer_token = key}; }

Gate GateWithKeys(const GateOptions& options = {}, bool client_certificates = false) {
  return Gate(OwnServices(), options, Authenticator(Keys(), client_certificates));
}

Gate OpenGate(const GateOptions& options = {}) {
  return Gate(OwnServices(), options, Authenticator(nullptr, false));
}

absl::StatusCode CodeOf(const Gate& gate, absl::string_view path, const Credentials& credentials) {
  return gate.Admit(path, credentials).status().code();
}

constexpr absl::StatusCode kOk = absl::StatusCode::kOk;
constexpr absl::StatusCode kDenied = absl::StatusCode::kPermissionDenied;
constexpr absl::StatusCode kUnknown = absl::StatusCode::kUnauthenticated;
constexpr absl::StatusCode kUnimplemented = absl::StatusCode::kUnimplemented;

TEST(GateTest, EveryMethodWithEveryCaller) {
  const Gate closed = GateWithKeys();
  const Gate open = OpenGate();
  int num_methods = 0;
  for (const ServiceDescriptor* service : OwnServices()) {
    for (int i = 0; i < service->method_count(); ++i, ++num_methods) {
      const std::string path =
          absl::StrCat("/", service->full_name(), "/", service->method(i)->name());
      SCOPED_TRACE(path);
      const bool is_admin = RequiredRole(*service->method(i)) == Role::kAdmin;
      EXPECT_EQ(CodeOf(closed, path, {}), kUnknown);
      EXPECT_EQ(CodeOf(closed, path, Credentials{.peer = Local()}), kUnknown);
      EXPECT_EQ(CodeOf(closed, path, Key("")), kUnknown);
      EXPECT_EQ(CodeOf(closed, path, Key("the-key-of-nobody")), kUnknown);
      EXPECT_EQ(CodeOf(closed, path, {.certificate_name = "ops.example"}), kUnknown)
          << "no CA vouches for it";
      EXPECT_EQ(CodeOf(closed, path, Key(kUserKey)), is_admin ? kDenied : kOk);
      EXPECT_EQ(CodeOf(closed, path, Key(kAdminKey)), is_admin ? kOk : kDenied);
      EXPECT_EQ(CodeOf(closed, path, Key(kBothKey)), kOk);
      EXPECT_EQ(CodeOf(open, path, {}), is_admin ? kDenied : kOk);
      EXPECT_EQ(CodeOf(open, path, Key("whatever")), is_admin ? kDenied : kOk);
      EXPECT_EQ(CodeOf(open, path, Credentials{.peer = Local()}), kOk);
    }
  }
  EXPECT_GE(num_methods, 26);
}

TEST(GateTest, WhatAdminsAloneMayDo) {
  std::vector<std::string> methods;
  for (const ServiceDescriptor* service : OwnServices()) {
    for (int i = 0; i < service->method_count(); ++i) {
      if (RequiredRole(*service->method(i)) == Role::kAdmin) {
        methods.push_back(service->method(i)->name());
      }
    }
  }
  EXPECT_THAT(methods, testing::UnorderedElementsAre("GetStatus", "FlushPrefixCache", "FlushCache",
                                                     "StartProfile", "StopProfile", "GetLoads",
                                                     "SubscribeKvEvents"))
      << "Abort ends one's own requests";
}

TEST(GateTest, WhatNobodyListedIsThereForNobody) {
  const Gate closed = GateWithKeys();
  for (const char* path : {"", "/", "/quire.v1.Inference/", "/quire.v1.Inference/generate",
                           "quire.v1.Inference/Generate", "/quire.v1.Inference/Generate/",
                           "/grpc.channelz.v1.Channelz/GetServers", "/x"}) {
    EXPECT_EQ(CodeOf(closed, path, {}), kUnknown) << path;
    EXPECT_EQ(CodeOf(closed, path, Key(kBothKey)), kUnimplemented) << path;
    EXPECT_EQ(CodeOf(OpenGate(), path, {}), kUnimplemented) << path;
  }
}

TEST(GateTest, HealthAndReflectionHaveSettings) {
  const std::string health = "/grpc.health.v1.Health/Check";
  EXPECT_EQ(CodeOf(GateWithKeys(), health, {}), kOk);
  EXPECT_EQ(CodeOf(GateWithKeys(), health, Key("the-key-of-nobody")), kOk)
      << "a probe with an old key is a probe";
  EXPECT_EQ(CodeOf(GateWithKeys({.health = Access::kKnown}), health, {}), kUnknown);
  EXPECT_EQ(CodeOf(GateWithKeys({.health = Access::kKnown}), health, Key(kUserKey)), kOk);
  EXPECT_EQ(CodeOf(OpenGate({.health = Access::kKnown}), health, {}), kOk);
  for (const char* version : {"v1", "v1alpha"}) {
    const std::string path =
        absl::StrCat("/grpc.reflection.", version, ".ServerReflection/ServerReflectionInfo");
    EXPECT_EQ(CodeOf(GateWithKeys(), path, {}), kUnknown);
    EXPECT_EQ(CodeOf(GateWithKeys(), path, Key(kUserKey)), kOk);
    EXPECT_EQ(CodeOf(OpenGate(), path, {}), kOk);
    EXPECT_EQ(CodeOf(GateWithKeys({.reflection = Access::kAnyone}), path, {}), kOk);
    EXPECT_EQ(CodeOf(OpenGate({.reflection = Access::kNobody}), path, {}), kUnimplemented);
  }
}

TEST(GateTest, AKeyCountsBeforeACertificate) {
  const std::string path = "/quire.v1.Inference/Generate";
  const Gate gate = GateWithKeys({}, /*client_certificates=*/true);
  const auto name = [&](const Credentials& credentials) {
    const auto principal = gate.Admit(path, credentials);
    return principal.ok() ? (*principal)->name : std::string(principal.status().message());
  };
  EXPECT_EQ(name({.bearer_token = kBothKey, .certificate_name = "web.example"}), "boss");
  EXPECT_EQ(name({.certificate_name = "web.example"}), "cert:web.example");
  EXPECT_THAT(name({.bearer_token = "the-key-of-nobody", .certificate_name = "web.example"}),
              HasSubstr("none of this server's"));
  EXPECT_THAT(name({.certificate_name = "ops.example"}), HasSubstr("\"ops\" does not have"));
  EXPECT_THAT(name({}), HasSubstr("or in x-api-key, or connect by TLS with a client certificate"));
}

TEST(GateTest, ClientCertificatesAloneCloseTheDoorToo) {
  const Gate gate(OwnServices(), {}, Authenticator(nullptr, /*client_certificates=*/true));
  const std::string path = "/quire.v1.Inference/Generate";
  EXPECT_EQ(CodeOf(gate, path, Credentials{.peer = Local()}), kUnknown)
      << "a connection without TLS shows no certificate";
  EXPECT_EQ(CodeOf(gate, path, Key("whatever")), kUnknown);
  EXPECT_EQ(CodeOf(gate, path, {.bearer_token = "whatever", .certificate_name = "a"}), kOk)
      << "without keys there are no wrong ones";
}

TEST(GateTest, BearerTokens) {
  EXPECT_EQ(*BearerToken("Bearer abc"), "abc");
  EXPECT_EQ(*BearerToken("bearer  abc "), "abc");
  for (const char* header : {"", "abc", "Basic abc", "Bearerabc"}) {
    EXPECT_EQ(BearerToken(header).status().code(), kUnknown) << header;
  }
}

// The build checks this, and the gate checks it again.
TEST(GateDeathTest, AMethodWithoutARoleIsNobodys) {
  google::protobuf::FileDescriptorProto file;
  file.set_name("quire/test.proto");
  file.set_package("quire.test");
  file.add_message_type()->set_name("Empty");
  auto* service = file.add_service();
  service->set_name("Careless");
  auto* method = service->add_method();
  method->set_name("Anything");
  method->set_input_type(".quire.test.Empty");
  method->set_output_type(".quire.test.Empty");
  google::protobuf::DescriptorPool pool;
  const auto* careless = pool.BuildFile(file)->service(0);
  EXPECT_EQ(RequiredRole(*careless->method(0)), std::nullopt);
  EXPECT_DEATH(Gate({careless}, {}, Authenticator(nullptr, false)),
               "quire.test.Careless.Anything declares no required_role");
}

}  // namespace
}  // namespace quire

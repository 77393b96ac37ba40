// Principals: addresses, roles, priorities, and whose prefix cache is whose.
#include "server/auth/principal.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <set>

namespace quire {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

PeerAddress Peer(const std::string& text) {
  sockaddr_storage storage = {};
  auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
  if (inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    storage.ss_family = AF_INET;
  } else {
    EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr), 1) << text;
    storage.ss_family = AF_INET6;
  }
  return PeerAddress::From(storage);
}

TEST(PeerAddressTest, NamesOneClient) {
  EXPECT_EQ(Peer("203.0.113.7").name(), "203.0.113.7");
  EXPECT_EQ(Peer("::ffff:203.0.113.7").name(), "203.0.113.7");
  EXPECT_EQ(Peer("2001:db8:1:2:3:4:5:6").name(), "2001:db8:1:2::/64");
  EXPECT_EQ(Peer("2001:db8:1:2::").name(), Peer("2001:db8:1:2:ffff:ffff:ffff:ffff").name());
  EXPECT_NE(Peer("2001:db8:1:3::1").name(), Peer("2001:db8:1:2::1").name());
  EXPECT_EQ(PeerAddress().name(), "unknown");
}

TEST(PeerAddressTest, KnowsThisMachine) {
  for (const char* address : {"127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(Peer(address).is_loopback()) << address;
  }
  for (const char* address : {"128.0.0.1", "0.0.0.0", "10.0.0.1", "::2", "::", "fe80::1",
                              "::ffff:10.0.0.1", "7f00:1::1"}) {
    EXPECT_FALSE(Peer(address).is_loopback()) << address;
  }
  EXPECT_FALSE(PeerAddress().is_loopback());
  sockaddr_storage file_system = {};
  file_system.ss_family = AF_UNIX;
  EXPECT_TRUE(PeerAddress::From(file_system).is_loopback());
}

TEST(PeerAddressTest, OfASocketWithoutPeer) {
  EXPECT_EQ(PeerAddress::OfSocket(-1).name(), "unknown");
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  EXPECT_EQ(PeerAddress::OfSocket(fds[0]).name(), "local");
  close(fds[0]);
  close(fds[1]);
}

TEST(PrincipalTest, OnlyThisMachineAdministersWithoutKeys) {
  const auto remote = AnonymousPrincipal(Peer("203.0.113.7"));
  EXPECT_EQ(remote->name, "peer:203.0.113.7");
  EXPECT_TRUE(CheckRole(*remote, Role::kInference, "x").ok());
  const absl::Status refused = CheckRole(*remote, Role::kAdmin, "/quire.v1.Admin/GetStatus");
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("/quire.v1.Admin/GetStatus needs the role admin"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--api-key-file"));
  const auto local = AnonymousPrincipal(Peer("127.0.0.1"));
  EXPECT_TRUE(CheckRole(*local, Role::kAdmin, "x").ok());
  EXPECT_FALSE(CheckRole(*AnonymousPrincipal(PeerAddress()), Role::kAdmin, "x").ok());
  EXPECT_FALSE(CheckRole(*CertificatePrincipal("a"), Role::kAdmin, "x").ok());
}

TEST(PrincipalTest, NobodyPushesAheadWithoutTheRight) {
  constexpr int32_t kLeast = std::numeric_limits<int32_t>::min();
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  const auto remote = AnonymousPrincipal(Peer("203.0.113.7"));
  for (const int32_t priority : {0, 1, kMost}) EXPECT_TRUE(CheckPriority(*remote, priority).ok());
  for (const int32_t priority : {-1, kLeast}) {
    const absl::Status refused = CheckPriority(*remote, priority);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("0 .. 2147483647"));
  }
  EXPECT_TRUE(CheckPriority(*AnonymousPrincipal(Peer("::1")), kLeast).ok());
  Principal limited;
  limited.limits.min_priority = -5;
  limited.limits.max_priority = 5;
  EXPECT_TRUE(CheckPriority(limited, -5).ok());
  EXPECT_TRUE(CheckPriority(limited, 5).ok());
  EXPECT_FALSE(CheckPriority(limited, -6).ok());
  EXPECT_FALSE(CheckPriority(limited, 6).ok());
}

Principal Named(const std::string& name, const std::string& group = "") {
  Principal principal;
  principal.name = name;
  principal.cache_group = group;
  return principal;
}

TEST(PrincipalTest, EveryPrincipalIsAFlowOfItsOwn) {
  EXPECT_EQ(FlowId(Named("a")), FlowId(Named("a", "group")));
  EXPECT_NE(FlowId(Named("a")), FlowId(Named("b")));
}

TEST(PrincipalTest, NoTwoPrincipalsShareACacheUnlessTheyAreOfOneGroup) {
  // Names, groups and salts that would be mistaken for each other if they were only put together.
  std::set<std::string> salts;
  const std::vector<Principal> principals = {Named("a"),
                                             Named("ab"),
                                             Named("b"),
                                             Named("team"),
                                             Named("x", "team"),
                                             Named("y", "a"),
                                             *AnonymousPrincipal(Peer("203.0.113.7")),
                                             *AnonymousPrincipal(Peer("203.0.113.70")),
                                             *CertificatePrincipal("a")};
  const std::vector<std::string> client_salts = {
      "", "b", "bb", "0", " ", std::string("\0", 1), "principal 1 a", "1 a"};
  for (const Principal& principal : principals) {
    for (const std::string& salt : client_salts) {
      const std::string derived = CacheSalt(principal, salt);
      EXPECT_THAT(derived, SizeIs(32));
      EXPECT_TRUE(salts.insert(derived).second) << principal.name << ", salt " << salt;
      EXPECT_EQ(derived, CacheSalt(principal, salt));
    }
  }
  EXPECT_EQ(CacheSalt(Named("x", "team"), "s"), CacheSalt(Named("y", "team"), "s"));
  EXPECT_NE(CacheSalt(Named("x", "team"), "s"), CacheSalt(Named("y", "team"), "t"));
}

}  // namespace
}  // namespace quire

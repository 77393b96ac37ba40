// HTTP/1.1 from the bytes on a socket to a route and back: heads, bodies, order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/server/wire/http1/http1_connection_fixture.h"

namespace quire {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(Http1ConnectionTest, ConnectionsAreKeptUntilOneSideSaysClose) {
  Http1Client& client = Connect();
  for (int i = 0; i < 3; ++i) {
    client.Send(Get("/hello?you"));
    EXPECT_THAT(client.ReadUntil("hello you"), StartsWith("HTTP/1.1 200 OK\r\n"));
  }
  client.Send(Get("/hello", kClose));
  EXPECT_THAT(client.ReadToEnd(), HasSubstr("connection: close\r\n"));
}

TEST_F(Http1ConnectionTest, OfHttp10OnlyWhatAsksForItIsKept) {
  Http1Client& client = Connect();
  client.Send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("hello "), HasSubstr("connection: keep-alive\r\n"));
  // Without lengths the end of the connection is that of the body.
  client.Send("GET /parts HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const std::string answer = client.ReadToEnd();
  EXPECT_THAT(answer, EndsWith("\r\n\r\nonetwothree"));
  EXPECT_THAT(answer, HasSubstr("connection: close\r\n"));
}

TEST_F(Http1ConnectionTest, RequestsSentAheadAreAnsweredInOrder) {
  std::string requests;
  for (int i = 0; i < 300; ++i) {
    absl::StrAppend(&requests, i % 3 == 0 ? Post("Content-Length: 2\r\n", absl::StrCat(i % 90 + 10))
                                          : Get(absl::StrCat("/hello?", i, ".")));
  }
  absl::StrAppend(&requests, Get("/hello?last", kClose));
  const std::string answers = Exchange(requests);
  size_t place = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string body =
        i % 3 == 0 ? absl::StrCat("\r\n\r\n", i % 90 + 10) : absl::StrCat("\r\n\r\nhello ", i, ".");
    place = answers.find(body, place);
    ASSERT_NE(place, std::string::npos) << i;
  }
  EXPECT_THAT(answers, EndsWith("hello last"));
}

TEST_F(Http1ConnectionTest, AHeadMayComeByteByByte) {
  Http1Client& client = Connect();
  for (const char c : Get("/hello?slow")) client.Send(std::string(1, c));
  EXPECT_THAT(client.ReadUntil("hello slow"), StartsWith("HTTP/1.1 200"));
}

TEST_F(Http1ConnectionTest, BodiesWithALengthAndInChunks) {
  Http1Client& client = Connect();
  const std::string large(1'000'000, 'x');
  client.Send(Post(absl::StrCat("Content-Length: ", large.size(), "\r\n"), large));
  EXPECT_THAT(client.ReadUntil(large), HasSubstr("content-length: 1000000\r\n"));
  client.Send(Post("Transfer-Encoding: chunked\r\n",
                   "3;name=\"value\"\r\nabc\r\n00A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"));
  EXPECT_THAT(client.ReadUntil("abc0123456789"), StartsWith("HTTP/1.1 200"));
  client.Send(Post("Content-Length: 0\r\n", "") + Get("/hello?after"));
  EXPECT_THAT(client.ReadUntil("hello after"), HasSubstr("content-length: 0\r\n"));
}

TEST_F(Http1ConnectionTest, AnAnswerInPartsIsChunked) {
  Http1Client& client = Connect();
  client.Send(Get("/parts"));
  const std::string answer = client.ReadUntil("0\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr("transfer-encoding: chunked\r\n"));
  EXPECT_THAT(answer, HasSubstr("onetwothree"));
  EXPECT_EQ(num_sent_, 3);
  client.Send(Get("/hello"));
  EXPECT_THAT(client.ReadUntil("hello "), StartsWith("HTTP/1.1 200"));
}

TEST_F(Http1ConnectionTest, HeadHasTheHeadOfGetAlone) {
  Http1Client& client = Connect();
  client.Send("HEAD /hello?x HTTP/1.1\r\nHost: x\r\n\r\n" + Get("/hello", kClose));
  const std::string answer = client.ReadToEnd();
  EXPECT_THAT(answer, HasSubstr("content-length: 7\r\n"));
  EXPECT_THAT(answer, Not(HasSubstr("hello x")));
  EXPECT_THAT(answer, EndsWith("hello "));
}

TEST_F(Http1ConnectionTest, WhoExpectsIsToldToContinue) {
  Http1Client& client = Connect();
  client.Send(Post("Content-Length: 4\r\nExpect: 100-continue\r\n", ""));
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("body");
  EXPECT_THAT(client.ReadUntil("\r\n\r\nbody"), StartsWith("HTTP/1.1 200"));
  // Who is refused is not told to; then nobody knows whether the body comes.
  client.Send(
      "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  const std::string answer = client.ReadToEnd();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(answer, HasSubstr("connection: close\r\n"));
}

TEST_F(Http1ConnectionTest, PathsMethodsAndTypes) {
  Http1Client& client = Connect();
  client.Send(Get("/nowhere"));
  EXPECT_THAT(client.ReadUntil("}}"), StartsWith("HTTP/1.1 404 Not Found\r\n"));
  client.Send("DELETE /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("}}"), HasSubstr("allow: GET, HEAD, OPTIONS\r\n"));
  client.Send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_THAT(client.ReadUntil("}}"), StartsWith("HTTP/1.1 415"));
  client.Send(Get("/below/org%2Fname"));
  EXPECT_THAT(client.ReadUntil("org/name"), StartsWith("HTTP/1.1 200"));
  client.Send("GET http://host:80/hello?absolute HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("hello absolute"), StartsWith("HTTP/1.1 200"));
  client.Send(
      "OPTIONS /echo HTTP/1.1\r\nHost: x\r\nOrigin: http://y\r\n"
      "Access-Control-Request-Method: POST\r\n\r\n");
  const std::string preflight = client.ReadUntil("\r\n\r\n");
  EXPECT_THAT(preflight, StartsWith("HTTP/1.1 204"));
  EXPECT_THAT(preflight, HasSubstr("access-control-allow-origin: http://y\r\n"));
  EXPECT_THAT(preflight, Not(HasSubstr("content-length")));
}

TEST(CorsTest, AnOriginThatNoBrowserWritesIsRefusedByName) {
  for (const char* origin : {"example.org", "https://", "https://a.org/", "://a.org", "[\"*\"]"}) {
    const absl::Status status = Cors::Parse({"http://y", origin}).status();
    EXPECT_TRUE(absl::IsOutOfRange(status)) << origin;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat(" ", origin, " ")));
  }
}

TEST(CorsTest, OnlyAllowedOriginsAreNamed) {
  const auto headers_for = [](const Cors& cors, const std::string& origin) {
    RequestHead head;
    head.headers = {{"origin", origin}};
    return cors.AnswerHeaders(head);
  };
  EXPECT_TRUE(headers_for(Cors(), "http://y").empty());
  const Cors some = *Cors::Parse({"http://y", "http://[::1]:80"});
  EXPECT_TRUE(some.Allows("http://[::1]:80"));
  EXPECT_EQ(headers_for(some, "http://y").size(), 3u);
  const HeaderList others = headers_for(some, "http://y:80");
  ASSERT_EQ(others.size(), 1u);
  EXPECT_EQ(others[0].first, "vary");
  EXPECT_EQ(headers_for(*Cors::Parse({"*"}), "null")[0].second, "*");
}

}  // namespace
}  // namespace quire

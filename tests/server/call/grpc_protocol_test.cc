// gRPC's headers and messages, as other implementations write and read them.
#include "server/call/grpc_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quire/v1/inference.pb.h"
#include "server/call/messages.h"
#include "server/request/field_error.h"
#include "server/request/retry_pushback.h"
#include "server/wire/http/message_prefix.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(GrpcProtocolTest, StatusesKeepCodeAndSentence) {
  EXPECT_THAT(StatusTrailers(absl::OkStatus()), ElementsAre(Pair("grpc-status", "0")));
  for (int code = 1; code <= 16; ++code) {
    EXPECT_THAT(
        StatusTrailers(absl::Status(static_cast<absl::StatusCode>(code), "why")),
        ElementsAre(Pair("grpc-status", std::to_string(code)), Pair("grpc-message", "why")));
  }
}

TEST(GrpcProtocolTest, SentencesAreWrittenAsHeadersAllow) {
  const HeaderList trailers = StatusTrailers(absl::InternalError("100 %\r\n\xc3\xa9"));
  EXPECT_EQ(trailers[1].second, "100 %25%0d%0a%c3%a9");
  EXPECT_LE(StatusTrailers(absl::InternalError(std::string(100000, 'x')))[1].second.size(), 4096u);
}

TEST(GrpcProtocolTest, TheFieldToBlameComesBeforeTheSentence) {
  const HeaderList trailers =
      StatusTrailers(InField("model", absl::NotFoundError("\"x\" is not served here")));
  EXPECT_EQ(trailers[0].second, "5");
  EXPECT_EQ(trailers[1].second, "model: \"x\" is not served here");
}

TEST(GrpcProtocolTest, RefusalsSayWhenToComeBack) {
  const HeaderList trailers =
      StatusTrailers(WithRetryPushback(absl::ResourceExhaustedError("full")));
  ASSERT_EQ(trailers.size(), 3u);
  EXPECT_EQ(trailers[2].first, "grpc-retry-pushback-ms");
  EXPECT_GT(std::stoi(trailers[2].second), 0);
}

TEST(GrpcProtocolTest, Timeouts) {
  EXPECT_EQ(ParseGrpcTimeout("1H"), absl::Hours(1));
  EXPECT_EQ(ParseGrpcTimeout("2M"), absl::Minutes(2));
  EXPECT_EQ(ParseGrpcTimeout("99999999S"), absl::Seconds(99999999));
  EXPECT_EQ(ParseGrpcTimeout("100m"), absl::Milliseconds(100));
  EXPECT_EQ(ParseGrpcTimeout("5u"), absl::Microseconds(5));
  EXPECT_EQ(ParseGrpcTimeout("7n"), absl::Nanoseconds(7));
  for (const char* wrong :
       {"", "S", "5", "5s", "-5S", "+5S", " 5S", "123456789S", "5.5S", "0x5S"}) {
    EXPECT_FALSE(ParseGrpcTimeout(wrong).has_value()) << wrong;
  }
}

TEST(GrpcProtocolTest, ContentTypes) {
  for (const char* right : {"application/grpc", "application/grpc+proto", "application/grpc;x=y",
                            "Application/GRPC", "application/grpc+proto; charset=utf-8"}) {
    EXPECT_TRUE(IsGrpcContentType(right)) << right;
  }
  for (const char* wrong : {"", "application/json", "application/grpc+json", "application/grpcx",
                            "application/grpc-web"}) {
    EXPECT_FALSE(IsGrpcContentType(wrong)) << wrong;
  }
}

TEST(GrpcProtocolTest, PrefixesAreBigEndian) {
  std::string bytes;
  AppendMessagePrefix(0x01020304, &bytes);
  EXPECT_EQ(bytes, std::string("\0\1\2\3\4", 5));
  EXPECT_EQ(ParseMessagePrefix(bytes).num_bytes, 0x01020304u);
  EXPECT_FALSE(ParseMessagePrefix(bytes).is_compressed);
  EXPECT_EQ(ParseMessagePrefix("\1\xff\xff\xff\xff").num_bytes, 0xffffffffu);
  EXPECT_TRUE(ParseMessagePrefix("\1\xff\xff\xff\xff").is_compressed);
}

TEST(GrpcProtocolTest, BytesThatAreNoMessageAreInvalid) {
  for (const std::string& bytes :
       {std::string("\x0a\x02\xff\xfe", 4),  // request_id that is not UTF-8
        std::string("\x0a\x7f", 2),          // length beyond the end
        std::string(20, '\xff')}) {
    const absl::Status status = Parse<v1::GenerateRequest>(bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("quire.v1.GenerateRequest"));
  }
}

}  // namespace
}  // namespace quire

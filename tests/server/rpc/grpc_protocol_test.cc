#include "server/rpc/wire.h"

#include <gmock/gmock.h>
#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>

#include "quire/v1/inference.pb.h"
#include "server/request/field_error.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

TEST(WireTest, StatusesKeepCodeAndSentence) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  for (int code = 1; code <= 16; ++code) {
    const grpc::Status status =
        ToGrpcStatus(absl::Status(static_cast<absl::StatusCode>(code), "why"));
    EXPECT_EQ(static_cast<int>(status.error_code()), code);
    EXPECT_EQ(status.error_message(), "why");
  }
  EXPECT_EQ(static_cast<int>(absl::StatusCode::kResourceExhausted),
            static_cast<int>(grpc::StatusCode::RESOURCE_EXHAUSTED));
  EXPECT_LE(ToGrpcStatus(absl::InternalError(std::string(100000, 'x'))).error_message().size(),
            4096u);
}

TEST(WireTest, MessagesSurviveTheRoundTrip) {
  v1::GenerateRequest message;
  message.set_request_id("id");
  message.mutable_text()->set_text(std::string(100000, 'x'));
  const absl::StatusOr<v1::GenerateRequest> parsed = Parse<v1::GenerateRequest>(Serialize(message));
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->SerializeAsString(), message.SerializeAsString());
}

TEST(WireTest, BytesThatAreNoMessageAreInvalid) {
  for (const std::string& bytes :
       {std::string("\x0a\x02\xff\xfe", 4),  // request_id that is not UTF-8
        std::string("\x0a\x7f", 2),          // length beyond the end
        std::string(20, '\xff')}) {
    const grpc::Slice slice(bytes);
    const absl::Status status = Parse<v1::GenerateRequest>(grpc::ByteBuffer(&slice, 1)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("quire.v1.GenerateRequest"));
  }
}

TEST(WireTest, TheFieldToBlameComesBeforeTheSentence) {
  const grpc::Status status =
      ToGrpcStatus(InField("model", absl::NotFoundError("\"x\" is not served here")));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "model: \"x\" is not served here");
}

}  // namespace
}  // namespace quire

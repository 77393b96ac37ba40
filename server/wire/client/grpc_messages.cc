#include "server/wire/client/grpc_messages.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/wire/http/message_prefix.h"

namespace quire {

namespace {

constexpr size_t kMaxMessageBytes = 64 << 20;

// gRPC's percent-encoding of messages.
std::string Decode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    int code = 0;
    const absl::string_view digits(text.data() + i + 1, text.size() - i > 2 ? 2 : 0);
    if (text[i] == '%' && absl::SimpleHexAtoi(digits, &code)) {
      decoded.push_back(static_cast<char>(code));
      i += 2;
    } else {
      decoded.push_back(text[i]);
    }
  }
  return decoded;
}

}  // namespace

ClientRequest GrpcRequest(std::string path, std::string_view message,
                          const std::string& authorization, const HeaderList& more) {
  ClientRequest request = {.path = std::move(path)};
  request.headers = {{"content-type", "application/grpc"}, {"te", "trailers"}};
  if (!authorization.empty()) request.headers.emplace_back("authorization", authorization);
  request.headers.insert(request.headers.end(), more.begin(), more.end());
  AppendMessagePrefix(message.size(), &request.body);
  request.body.append(message);
  return request;
}

std::string_view OnlyMessage(std::string_view body) {
  return body.substr(std::min(body.size(), kMessagePrefixBytes));
}

absl::Status GrpcStatus(const AnswerEnd& end) {
  const std::string_view status = end.Find("grpc-status");
  int code = 0;
  if (absl::SimpleAtoi(absl::string_view(status.data(), status.size()), &code)) {
    // A code that gRPC does not have becomes UNKNOWN.
    return absl::Status(absl::Status(static_cast<absl::StatusCode>(code), "").code(),
                        Decode(end.Find("grpc-message")));
  }
  if (!end.problem.empty()) return absl::UnavailableError(end.problem);
  return absl::UnavailableError(
      absl::StrCat("no gRPC server answers: HTTP status ", end.http_status));
}

void MessageReader::Add(std::string_view bytes) {
  if (begin_ == bytes_.size()) {
    bytes_.clear();
    begin_ = 0;
  }
  bytes_.append(bytes);
}

bool MessageReader::Next(std::string_view* message) {
  const std::string_view rest = std::string_view(bytes_).substr(begin_);
  if (is_broken_ || rest.size() < kMessagePrefixBytes) return false;
  const MessagePrefix prefix = ParseMessagePrefix({rest.data(), kMessagePrefixBytes});
  is_broken_ = prefix.is_compressed || prefix.num_bytes > kMaxMessageBytes;
  if (is_broken_ || rest.size() - kMessagePrefixBytes < prefix.num_bytes) return false;
  *message = rest.substr(kMessagePrefixBytes, prefix.num_bytes);
  begin_ += kMessagePrefixBytes + prefix.num_bytes;
  return true;
}

}  // namespace quire

#include "server/wire/client/http1_client_connection.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/base/check.h"

namespace quire {

namespace {

constexpr size_t kMaxHeadBytes = 64 << 10;

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

Http1ClientConnection::Http1ClientConnection(IoLoop* loop, const ServerAddress& server)
    : authority_(server.authority), socket_(loop, server, "http/1.1", this) {
  is_lost_ = socket_.is_lost();
}

void Http1ClientConnection::Start(const ClientRequest& request, AnswerSink* sink) {
  CHECK_GT(NumFree(), 0);
  sink_ = sink;
  end_ = {};
  has_head_ = false;
  head_.clear();
  std::string text =
      absl::StrCat(request.method, " ", request.path, " HTTP/1.1\r\nhost: ", authority_, "\r\n");
  for (const auto& [name, value] : request.headers) {
    absl::StrAppend(&text, name, ": ", value, "\r\n");
  }
  if (!request.body.empty()) {
    absl::StrAppend(&text, "content-length: ", request.body.size(), "\r\n");
  }
  absl::StrAppend(&text, "\r\n", request.body);
  socket_.Send(text);
}

void Http1ClientConnection::Cancel(AnswerSink* sink) {
  if (sink != sink_) return;
  is_lost_ = true;
  End("cancelled");
}

void Http1ClientConnection::OnBytes(std::string_view bytes) {
  while (!is_lost_ && !bytes.empty()) {
    if (sink_ == nullptr) return OnLost("the server said something unasked");
    if (!has_head_) TakeHead(&bytes);
    if (has_head_ && TakeBody(&bytes)) End("");
  }
}

// Takes the head, and leaves in `bytes` what follows it.
void Http1ClientConnection::TakeHead(std::string_view* bytes) {
  const size_t begin = head_.size() < 3 ? 0 : head_.size() - 3;
  head_.append(*bytes);
  const size_t end = head_.find("\r\n\r\n", begin);
  if (end == std::string::npos) {
    bytes->remove_prefix(bytes->size());
    if (head_.size() > kMaxHeadBytes) OnLost("the answer's head is too long");
    return;
  }
  const size_t num_after = head_.size() - end - 4;
  bytes->remove_prefix(bytes->size() - num_after);
  head_.resize(end);
  const std::string problem = ReadHead(head_);
  head_.clear();
  if (!problem.empty()) return OnLost(problem);
  has_head_ = end_.http_status >= 200;  // others are only news of a head to come
}

// Reads the answer's head. Returns what is wrong with it, if anything is.
std::string Http1ClientConnection::ReadHead(std::string_view head) {
  const std::vector<absl::string_view> lines = absl::StrSplit(View(head), "\r\n");
  const std::vector<absl::string_view> words = absl::StrSplit(lines.front(), ' ');
  end_ = {};
  if (words.size() < 2 || !absl::StartsWith(words[0], "HTTP/1.") ||
      !absl::SimpleAtoi(words[1], &end_.http_status)) {
    return "this is not HTTP/1.1";
  }
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(lines[i], absl::MaxSplits(':', 1));
    end_.headers.emplace_back(absl::AsciiStrToLower(field.first),
                              absl::StripAsciiWhitespace(field.second));
  }
  const bool has_none = end_.http_status == 204 || end_.http_status == 304;
  const std::string_view length = end_.Find("content-length");
  keeps_alive_ =
      words[0] == "HTTP/1.1" && !absl::EqualsIgnoreCase(View(end_.Find("connection")), "close");
  chunks_ = {};
  num_left_ = 0;
  if (absl::EqualsIgnoreCase(View(end_.Find("transfer-encoding")), "chunked")) {
    body_ = Body::kChunked;
  } else if (!length.empty()) {
    body_ = Body::kLength;
    if (!absl::SimpleAtoi(View(length), &num_left_)) return "the answer has no length";
  } else {
    body_ = has_none ? Body::kNone : Body::kUntilClose;
  }
  return "";
}

// Whether the body has ended. `bytes` may be empty.
bool Http1ClientConnection::TakeBody(std::string_view* bytes) {
  switch (body_) {
    case Body::kNone:
      return true;
    case Body::kUntilClose:
      sink_->OnBody(std::exchange(*bytes, {}));
      return false;
    case Body::kLength: {
      const auto count = static_cast<size_t>(std::min<uint64_t>(num_left_, bytes->size()));
      if (count > 0) sink_->OnBody(bytes->substr(0, count));
      bytes->remove_prefix(count);
      num_left_ -= count;
      return num_left_ == 0;
    }
    case Body::kChunked:
      break;
  }
  for (std::string_view data;;) {
    switch (chunks_.Take(bytes, &data)) {
      case ChunkedBody::Progress::kWantsMore:
        return false;
      case ChunkedBody::Progress::kData:
        sink_->OnBody(data);
        break;
      case ChunkedBody::Progress::kEnd:
        return true;
      case ChunkedBody::Progress::kBad:
        OnLost("the answer's chunks are malformed");
        return false;
    }
  }
}

void Http1ClientConnection::End(const std::string& problem) {
  end_.problem = problem;
  if (!keeps_alive_) is_lost_ = true;
  std::exchange(sink_, nullptr)->OnEnd(end_);
}

void Http1ClientConnection::OnLost(const std::string& why) {
  is_lost_ = true;
  if (sink_ == nullptr) return;
  const bool is_whole = has_head_ && body_ == Body::kUntilClose;
  End(is_whole ? "" : why);
}

}  // namespace quire

#include "server/wire/http2/http2_stream.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace quire {

namespace {

// RFC 9113, 6.5.2: what a field counts beyond its name and value.
constexpr size_t kFieldOverhead = 32;

nghttp2_nv MakeField(std::string_view name, std::string_view value) {
  return {reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NONE};
}

std::vector<nghttp2_nv> MakeFields(const HeaderList& headers) {
  std::vector<nghttp2_nv> fields;
  fields.reserve(headers.size() + 1);
  for (const auto& [name, value] : headers) fields.push_back(MakeField(name, value));
  return fields;
}

}  // namespace

bool Http2Connection::Stream::AddHeader(std::string_view name, std::string_view value,
                                        size_t max_bytes) {
  head_bytes_ += name.size() + value.size() + kFieldOverhead;
  if (head_bytes_ > max_bytes) return false;
  if (name == ":method") {
    head_.method = value;
  } else if (name == ":path") {
    head_.path = value;
  } else if (name == ":authority") {
    head_.headers.emplace_back("host", value);  // its name in HTTP/1.1
  } else if (name.empty() || name[0] != ':') {
    head_.headers.emplace_back(name, value);
  }
  return true;
}

void Http2Connection::Stream::RefuseHead(int http_status) {
  is_refused_ = true;
  head_ = {};
  SendHeaders(http_status, {}, /*is_all=*/true);
}

void Http2Connection::Stream::Start(const StartExchange& start_exchange) {
  exchange_ = start_exchange(std::move(head_), this);
  head_ = {};
}

void Http2Connection::Stream::OnBody(std::string_view bytes) {
  if (exchange_ != nullptr) exchange_->OnBody(bytes);
}

void Http2Connection::Stream::OnBodyEnd() {
  if (!is_passive_ && !std::exchange(is_active_, true)) connection_->ChangeActive(+1);
  if (exchange_ != nullptr) exchange_->OnBodyEnd();
}

void Http2Connection::Stream::OnTooSlow() {
  if (exchange_ != nullptr) {
    exchange_->OnTooSlow();
  } else {
    Reset(NGHTTP2_CANCEL);
  }
}

void Http2Connection::Stream::Close() {
  if (exchange_ == nullptr) return;
  const std::shared_ptr<HttpExchange> exchange = std::move(exchange_);
  exchange->OnClosed();
}

void Http2Connection::Stream::SendHeaders(int http_status, const HeaderList& headers, bool is_all) {
  const std::string status = absl::StrCat(http_status);
  std::vector<nghttp2_nv> fields = MakeFields(headers);
  fields.insert(fields.begin(), MakeField(":status", status));
  nghttp2_data_provider body = {};
  body.source.ptr = this;
  body.read_callback = &Stream::ReadBody;
  nghttp2_submit_response(connection_->session_, id_, fields.data(), fields.size(),
                          is_all ? nullptr : &body);
  connection_->control_->RequestWrite();
}

void Http2Connection::Stream::ResumeBody() {
  nghttp2_session_resume_data(connection_->session_, id_);
  connection_->control_->RequestWrite();
}

void Http2Connection::Stream::CountMessage() { connection_->Charge(kRequestCost); }

void Http2Connection::Stream::SetPassive() {
  is_passive_ = true;
  if (std::exchange(is_active_, false)) connection_->ChangeActive(-1);
}

void Http2Connection::Stream::SendTrailersNow() {
  const std::vector<nghttp2_nv> fields = MakeFields(trailers_);
  nghttp2_submit_trailer(connection_->session_, id_, fields.data(), fields.size());
  connection_->control_->RequestWrite();
}

void Http2Connection::Stream::Reset(uint32_t error_code) {
  nghttp2_submit_rst_stream(connection_->session_, NGHTTP2_FLAG_NONE, id_, error_code);
  connection_->control_->RequestWrite();
}

ssize_t Http2Connection::Stream::ReadBody(nghttp2_session*, int32_t, uint8_t* buffer, size_t size,
                                          uint32_t* data_flags, nghttp2_data_source* source,
                                          void*) {
  return static_cast<Stream*>(source->ptr)
      ->ReadBody({reinterpret_cast<char*>(buffer), size}, data_flags);
}

ssize_t Http2Connection::Stream::ReadBody(absl::Span<char> buffer, uint32_t* data_flags) {
  size_t num_bytes = 0;
  const HttpExchange::Body body = exchange_->ReadBody(buffer, &num_bytes);
  if (num_bytes > 0) connection_->EarnDataCredit();
  if (body == HttpExchange::Body::kWait && num_bytes == 0) return NGHTTP2_ERR_DEFERRED;
  if (body == HttpExchange::Body::kEnd) {
    *data_flags |= NGHTTP2_DATA_FLAG_EOF;
    if (!trailers_.empty()) {
      *data_flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
      SendTrailersNow();
    }
  }
  return static_cast<ssize_t>(num_bytes);
}

}  // namespace quire

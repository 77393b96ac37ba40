#include "server/wire/tls/tls_context.h"

#include <openssl/evp.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/json/small_file.h"
#include "kernels/base/status_macros.h"
#include "server/wire/tls/pem_files.h"

namespace quire {

namespace {

constexpr int64_t kMaxPemBytes = int64_t{1} << 20;

absl::Status ReadPem(const char* flag, const std::string& path, std::string* text) {
  absl::StatusOr<std::string> read = ReadSmallFile(path, kMaxPemBytes);
  if (!read.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", read.status().message()));
  }
  *text = *std::move(read);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsContext>> TlsContext::Open(const TlsFiles& files,
                                                             ClientCertificate client_certificate) {
  std::unique_ptr<TlsContext> context(new TlsContext(files, client_certificate));
  absl::MutexLock reload_lock(&context->reload_mutex_);
  context->stamps_ = context->StampsNow();
  ASSIGN_OR_RETURN(Context read, context->Read(&context->contents_));
  absl::MutexLock lock(&context->mutex_);
  context->context_ = std::move(read);
  return context;
}

std::unique_ptr<TlsStream> TlsContext::NewStream(int fd) {
  Context context;
  {
    absl::MutexLock lock(&mutex_);
    context = context_;
  }
  return TlsStream::New(context.get(), fd);
}

void TlsContext::Look() {
  absl::MutexLock reload_lock(&reload_mutex_);
  if (MayDiffer(StampsNow())) ReadAgain();
}

void TlsContext::Reload() {
  absl::MutexLock reload_lock(&reload_mutex_);
  contents_.reset();  // so that the log says what came of it, also where nothing is new
  complaint_.clear();
  ReadAgain();
}

TlsContext::Stamps TlsContext::StampsNow() const {
  Stamps stamps = {FileStamp::Of(files_.certificate), FileStamp::Of(files_.key), {}};
  if (!files_.client_ca.empty()) stamps[2] = FileStamp::Of(files_.client_ca);
  return stamps;
}

bool TlsContext::MayDiffer(const Stamps& now) const {
  for (size_t i = 0; i < now.size(); ++i) {
    if (stamps_[i].MayDiffer(now[i])) return true;
  }
  return false;
}

absl::StatusOr<TlsContext::Context> TlsContext::Read(std::optional<Sha256>* contents) const {
  PemTexts texts;
  texts.require_client_certificate = client_certificate_ == ClientCertificate::kRequired;
  RETURN_IF_ERROR(ReadPem("--tls-cert", files_.certificate, &texts.certificate));
  RETURN_IF_ERROR(ReadPem("--tls-key", files_.key, &texts.key));
  if (!files_.client_ca.empty()) {
    RETURN_IF_ERROR(ReadPem("--tls-client-ca", files_.client_ca, &texts.client_ca));
    if (texts.client_ca.empty()) return absl::InvalidArgumentError("--tls-client-ca: is empty");
  }
  *contents = Sha256Of(absl::StrCat(texts.certificate.size(), " ", texts.key.size(), " ",
                                    texts.certificate, texts.key, texts.client_ca));
  return MakeServerContext(texts);
}

void TlsContext::ReadAgain() {
  stamps_ = StampsNow();
  std::optional<Sha256> contents;
  absl::StatusOr<Context> read = Read(&contents);
  if (absl::IsUnavailable(read.status())) stamps_ = {};  // the next look reads them again
  // The same bytes again, or the same trouble, have been in the log.
  const std::string complaint(read.status().message());
  if (contents == contents_ && complaint == complaint_) return;
  contents_ = contents;
  complaint_ = complaint;
  if (!read.ok()) {
    spdlog::error("TLS goes on with the certificate it has: {}", complaint);
    return;
  }
  spdlog::info("read the certificate {} for new connections", files_.certificate);
  absl::MutexLock lock(&mutex_);
  context_ = *std::move(read);
}

}  // namespace quire

#include "server/surfaces/grpc/grpc_server.h"

#include <utility>
#include <vector>

#include "kernels/base/status_macros.h"
#include "server/call/grpc_protocol.h"
#include "server/call/shown_credentials.h"
#include "server/surfaces/grpc/reflection_service.h"

namespace quire {

namespace {

constexpr char kHealth[] = "grpc.health.v1.Health";
// For probes that differ: who drains is not ready, and alive.
constexpr char kReadiness[] = "readiness";
constexpr char kLiveness[] = "liveness";

std::vector<std::string> NamesOf(const std::vector<GrpcService>& services) {
  std::vector<std::string> names;
  names.reserve(services.size());
  for (const GrpcService& service : services) names.push_back(service.name);
  return names;
}

std::vector<std::string> With(std::vector<std::string> names, std::vector<std::string> more) {
  names.insert(names.end(), more.begin(), more.end());
  return names;
}

}  // namespace

GrpcServer::GrpcServer(const ServingContext& context, std::vector<GrpcService> services)
    : gate_(*context.gate),
      service_names_(NamesOf(services)),
      watch_{&live_calls_, context.access_log, context.metrics, context.recent_requests},
      health_(With(service_names_, {"", kReadiness, kLiveness})) {
  for (GrpcService& service : services) AddMethods(std::move(service.methods));
  AddMethods(health_.Methods());
  AddMethods(ReflectionMethods(With(service_names_, {kHealth})));
}

void GrpcServer::AddMethods(std::vector<GrpcMethod> methods) {
  for (GrpcMethod& method : methods) {
    std::string path = method.path;
    methods_.emplace(std::move(path), std::make_unique<const GrpcMethod>(std::move(method)));
  }
}

std::shared_ptr<HttpExchange> GrpcServer::Start(const RequestHead& head, HttpStream* stream) {
  if (head.method != "POST") {
    stream->SendHeaders(405, {{"allow", "POST"}}, /*is_all=*/true);
    return nullptr;
  }
  if (!IsGrpcContentType(head.Find("content-type"))) {
    stream->SendHeaders(415, {}, /*is_all=*/true);
    return nullptr;
  }
  const absl::StatusOr<std::shared_ptr<const Principal>> principal = Admit(head, stream);
  if (!principal.ok()) {
    Refuse(head, principal.status(), stream);
    return nullptr;
  }
  const auto method = methods_.find(head.path);
  if (method == methods_.end()) {
    Refuse(head, absl::UnimplementedError("this server has no such method"), stream);
    return nullptr;
  }
  auto call = std::make_shared<GrpcCall>(*method->second, *principal, stream, watch_);
  call->SetTrace(ReadTraceContext(head.headers));
  call->Begin(head.Find("grpc-timeout"));
  return call;
}

void GrpcServer::Refuse(const RequestHead& head, const absl::Status& status,
                        HttpStream* stream) const {
  HeaderList headers = StatusTrailers(status);
  headers.emplace_back("content-type", "application/grpc");
  stream->SendHeaders(200, headers, /*is_all=*/true);
  if (watch_.access_log == nullptr) return;
  AccessEntry entry;
  if (status.code() != absl::StatusCode::kUnauthenticated) {
    const auto principal = gate_.authenticator().Authenticate(ShownCredentials(head, *stream));
    if (principal.ok()) entry.principal = (*principal)->name;
  }
  entry.peer = stream->connection().peer().name();
  entry.method = head.path;
  entry.status = status.code();
  watch_.access_log->Add(std::move(entry), stream->connection().loop().now());
}

absl::StatusOr<std::shared_ptr<const Principal>> GrpcServer::Admit(const RequestHead& head,
                                                                   HttpStream* stream) const {
  absl::StatusOr<std::shared_ptr<const Principal>> principal =
      gate_.Admit(head.path, ShownCredentials(head, *stream));
  const absl::string_view header = head.Find("authorization");
  if (absl::IsUnauthenticated(principal.status()) && !header.empty()) {
    RETURN_IF_ERROR(BearerToken(header).status());  // says more of another scheme
  }
  return principal;
}

void GrpcServer::SetServing(bool serving) {
  for (const std::string& service : With(service_names_, {"", kReadiness})) {
    health_.SetServing(service, serving);
  }
  if (serving) health_.SetServing(kLiveness, true);
}

void GrpcServer::SetDead() { health_.SetServing(kLiveness, false); }

bool GrpcServer::FinishCalls(absl::Time deadline) {
  health_.EndWatches(absl::UnavailableError("the server is shutting down"));
  return live_calls_.WaitUntilNone(deadline);
}

}  // namespace quire

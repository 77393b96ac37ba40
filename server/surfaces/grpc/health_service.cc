#include "server/surfaces/grpc/health_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.pb.h"
#include "server/call/messages.h"

namespace quire {

namespace {

namespace health = ::grpc::health::v1;

std::string Answer(health::HealthCheckResponse::ServingStatus status) {
  health::HealthCheckResponse response;
  response.set_status(status);
  return response.SerializeAsString();
}

health::HealthCheckResponse::ServingStatus StatusOf(bool serving) {
  return serving ? health::HealthCheckResponse::SERVING : health::HealthCheckResponse::NOT_SERVING;
}

}  // namespace

HealthService::HealthService(const std::vector<std::string>& services) {
  absl::MutexLock lock(&mutex_);
  for (const std::string& service : services) serving_[service] = false;
}

void HealthService::SetServing(const std::string& service, bool serving) {
  absl::MutexLock lock(&mutex_);
  if (std::exchange(serving_[service], serving) == serving) return;
  for (const auto& [id, watcher] : watchers_) {
    if (watcher.service == service) watcher.call->Send(WatchAnswer(service), nullptr);
  }
}

void HealthService::EndWatches(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, watcher] : watchers_) watcher.call->Finish(status);
  watchers_.clear();
}

std::vector<GrpcMethod> HealthService::Methods() {
  const google::protobuf::ServiceDescriptor& service =
      *health::HealthCheckRequest::descriptor()->file()->FindServiceByName("Health");
  GrpcMethod watch = {
      PathOf(*service.FindMethodByName("Watch")),
      [this](const GrpcCallRef& call, const std::string& bytes) { Watch(call, bytes); }};
  watch.is_passive = true;
  return {
      {PathOf(*service.FindMethodByName("Check")),
       [this](const GrpcCallRef& call, const std::string& bytes) { Check(call, bytes); }},
      {PathOf(*service.FindMethodByName("List")),
       [this](const GrpcCallRef& call, const std::string&) { List(call); }},
      std::move(watch),
  };
}

void HealthService::Check(const GrpcCallRef& call, const std::string& bytes) {
  const absl::StatusOr<health::HealthCheckRequest> request =
      Parse<health::HealthCheckRequest>(bytes);
  if (!request.ok()) {
    call->Finish(request.status());
    return;
  }
  absl::MutexLock lock(&mutex_);
  const auto it = serving_.find(request->service());
  if (it == serving_.end()) {
    call->Finish(absl::NotFoundError(
        absl::StrCat("there is no service \"", request->service(), "\" here; List names them")));
  } else {
    call->FinishWith(Answer(StatusOf(it->second)));
  }
}

void HealthService::List(const GrpcCallRef& call) {
  health::HealthListResponse response;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [service, serving] : serving_) {
      (*response.mutable_statuses())[service].set_status(StatusOf(serving));
    }
  }
  call->FinishWith(response.SerializeAsString());
}

std::string HealthService::WatchAnswer(const std::string& service) const {
  const auto it = serving_.find(service);
  return Answer(it == serving_.end() ? health::HealthCheckResponse::SERVICE_UNKNOWN
                                     : StatusOf(it->second));
}

void HealthService::Watch(const GrpcCallRef& call, const std::string& bytes) {
  const absl::StatusOr<health::HealthCheckRequest> request =
      Parse<health::HealthCheckRequest>(bytes);
  if (!request.ok()) {
    call->Finish(request.status());
    return;
  }
  uint64_t id = 0;
  {
    absl::MutexLock lock(&mutex_);
    id = next_watcher_++;
    watchers_.emplace(id, Watcher{call, request->service()});
    call->Send(WatchAnswer(request->service()), nullptr);
  }
  call->token()->Bind([this, id] {
    absl::MutexLock lock(&mutex_);
    const auto it = watchers_.find(id);
    if (it == watchers_.end()) return;
    it->second.call->Finish(absl::CancelledError("the client has gone"));
    watchers_.erase(it);
  });
}

}  // namespace quire

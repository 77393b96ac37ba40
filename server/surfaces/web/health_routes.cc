#include "server/surfaces/web/health_routes.h"

#include "absl/strings/str_cat.h"
#include "engine/engine.h"
#include "server/base/version.h"
#include "server/text/json_text.h"

namespace quire {

namespace {

HttpAnswer Health(bool is_well, absl::string_view status) {
  HttpAnswer answer = {.status = is_well ? 200 : 503,
                       .body = absl::StrCat("{\"status\": ", JsonString(status), "}")};
  if (!is_well) answer.headers.emplace_back("retry-after", "1");
  return answer;
}

HttpAnswer Readiness(const Engine& engine) {
  const EngineStatus status = engine.status();
  if (status.failed) return Health(false, "the engine has failed");
  if (!status.admitting) return Health(false, "the server is shutting down");
  return Health(true, "ok");
}

HttpAnswer Liveness(const Engine& engine) {
  const bool has_failed = engine.status().failed;
  return Health(!has_failed, has_failed ? "the engine has failed" : "ok");
}

}  // namespace

std::vector<HttpRoute> HealthRoutes(const ServingContext& context) {
  const Engine* engine = context.engine;
  const auto readiness = [engine](const HttpRequest&) { return Readiness(*engine); };
  return {
      TellingRoute("/health", std::nullopt, readiness),
      TellingRoute("/ping", std::nullopt, readiness),
      TellingRoute("/ready", std::nullopt, readiness),
      TellingRoute("/live", std::nullopt,
                   [engine](const HttpRequest&) { return Liveness(*engine); }),
      TellingRoute("/version", std::nullopt,
                   [](const HttpRequest&) {
                     return HttpAnswer{
                         .body = absl::StrCat("{\"version\": ", JsonString(kVersion), "}")};
                   }),
  };
}

}  // namespace quire

#include "server/surfaces/web/metrics_route.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"

namespace quire {

namespace {

MetricFormat FormatFor(const HttpRequest& request) {
  return absl::StrContains(request.head.Find("accept"), "application/openmetrics-text")
             ? MetricFormat::kOpenMetrics
             : MetricFormat::kPrometheus;
}

}  // namespace

HttpRoute MetricsRoute(const ServingContext& context, std::optional<Role> role,
                       std::function<ConnectionLoad()> connections) {
  return TellingRoute("/metrics", role,
                      [context, connections = std::move(connections)](const HttpRequest& request) {
                        const MetricFormat format = FormatFor(request);
                        return HttpAnswer{
                            .content_type = std::string(ContentTypeOf(format)),
                            .body = RenderMetrics(GatherMetrics(context, connections()), format)};
                      });
}

}  // namespace quire

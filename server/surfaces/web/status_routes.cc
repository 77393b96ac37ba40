#include "server/surfaces/web/status_routes.h"

#include <utility>

#include "server/observe/metrics/render_status.h"

namespace quire {

namespace {

HttpAnswer Fresh(std::string body) {
  return {.body = std::move(body), .headers = {{"cache-control", "no-store"}}};
}

}  // namespace

HttpRoute StatusRoute(const ServingContext& context, std::optional<Role> role,
                      std::function<ConnectionLoad()> connections) {
  return TellingRoute("/status", role,
                      [context, connections = std::move(connections)](const HttpRequest&) {
                        return Fresh(RenderStatus(GatherMetrics(context, connections()),
                                                  context.recent_requests->num_added()));
                      });
}

HttpRoute RecentRequestsRoute(const ServingContext& context) {
  const RecentRequests* requests = context.recent_requests;
  return TellingRoute("/status/requests", Role::kAdmin, [requests](const HttpRequest&) {
    return Fresh(RenderRecentRequests(requests->Read()));
  });
}

}  // namespace quire

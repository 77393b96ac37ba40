#include "server/observe/log/recent_requests.h"

#include <algorithm>
#include <utility>

namespace quire {

namespace {

void Cut(std::string* text) {
  if (text->size() <= RecentRequests::kMaxTextBytes) return;
  text->resize(RecentRequests::kMaxTextBytes);
  text->shrink_to_fit();
}

}  // namespace

absl::string_view SurfaceOf(absl::string_view method) {
  constexpr std::pair<absl::string_view, absl::string_view> kSurfaces[] = {
      // NOLINT(*-avoid-c-arrays)
      {"/v1/chat/completions", "openai"},
      {"/v1/completions", "openai"},
      {"/v1/responses", "openai"},
      {"/v1/messages", "anthropic"},
      {"/quire.v1.Inference/Generate", "quire.v1"},
      {"/quire.v1.Inference/GenerateOnce", "quire.v1"},
      {"/vllm.grpc.engine.VllmEngine/Generate", "vllm"},
      {"/vllm.Inference/Generate", "vllm"},
      {"/vllm.Inference/GenerateStream", "vllm"},
  };
  for (const auto& [name, surface] : kSurfaces) {
    if (name == method) return surface;
  }
  return {};
}

void RecentRequests::Add(const AccessEntry& entry, absl::Time end) {
  if (entry.principal.empty() || SurfaceOf(entry.method).empty()) return;
  Request request = {.number = 0, .end = end, .entry = entry};
  for (std::string* text : {&request.entry.request_id, &request.entry.principal,
                            &request.entry.peer, &request.entry.model}) {
    Cut(text);
  }
  const bool was_accepted = entry.prompt_tokens.has_value();
  absl::MutexLock lock(&mutex_);
  request.number = ++num_added_;
  Put(std::move(request), was_accepted ? kMaxAccepted : kMaxRefused,
      was_accepted ? &accepted_ : &refused_);
}

void RecentRequests::Put(Request request, size_t max_size, Ring* ring) {
  if (ring->requests.size() < max_size) {
    ring->requests.push_back(std::move(request));
    return;
  }
  ring->requests[ring->oldest] = std::move(request);
  ring->oldest = (ring->oldest + 1) % max_size;
}

std::vector<RecentRequests::Request> RecentRequests::Read() const {
  std::vector<Request> requests;
  {
    absl::MutexLock lock(&mutex_);
    requests = accepted_.requests;
    requests.insert(requests.end(), refused_.requests.begin(), refused_.requests.end());
  }
  std::sort(requests.begin(), requests.end(),
            [](const Request& a, const Request& b) { return a.number > b.number; });
  return requests;
}

uint64_t RecentRequests::num_added() const {
  absl::MutexLock lock(&mutex_);
  return num_added_;
}

}  // namespace quire

#include "tools/client/output/stream_printer.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "tools/client/output/json_output.h"
#include "tools/client/output/logprob_table.h"
#include "tools/client/output/terminal_text.h"

namespace quire::client {

namespace {

using Clock = std::chrono::steady_clock;

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

const char* ReasonName(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP:
      return "stop";
    case v1::FINISH_REASON_LENGTH:
      return "length";
    case v1::FINISH_REASON_ABORT:
      return "abort";
    default:
      return "unknown";
  }
}

// A token's id, its bytes, and what these are as text.
template <typename Logprob>
nlohmann::ordered_json TokenToJson(const Logprob& token) {
  return {{"token_id", token.token_id()},
          {"token", token.token()},
          {"bytes", BytesToJson(token.token_bytes())}};
}

nlohmann::ordered_json ToJson(const v1::TokenLogprob& token) {
  nlohmann::ordered_json json = TokenToJson(token);
  json["text_offset"] = token.text_offset();
  if (token.has_logprob()) {
    json["logprob"] = token.logprob();
    json["rank"] = token.rank();
  }
  json["top"] = nlohmann::ordered_json::array();
  for (const v1::TopLogprob& top : token.top()) {
    json["top"].push_back(TokenToJson(top));
    json["top"].back()["logprob"] = top.logprob();
  }
  return json;
}

nlohmann::ordered_json ToJson(const Continuation& continuation) {
  const v1::Finished& finished = continuation.finished;
  nlohmann::ordered_json json = {{"index", finished.index()},
                                 {"text", continuation.text},
                                 {"finish_reason", ReasonName(finished.finish_reason())}};
  if (finished.has_matched_token_id()) json["matched_token_id"] = finished.matched_token_id();
  if (finished.has_matched_stop_string()) {
    json["matched_stop_string"] = finished.matched_stop_string();
  }
  json["token_ids"] = continuation.token_ids;
  if (!continuation.logprobs.empty()) {
    for (const v1::TokenLogprob& token : continuation.logprobs) {
      json["logprobs"].push_back(ToJson(token));
    }
  }
  for (const v1::TokenLogprob& token : continuation.started.prompt_logprobs()) {
    json["prompt_logprobs"].push_back(ToJson(token));
  }
  json["usage"] = {{"prompt_tokens", finished.usage().prompt_tokens()},
                   {"cached_tokens", finished.usage().cached_tokens()},
                   {"completion_tokens", finished.usage().completion_tokens()}};
  json["timings"] = {{"queue_ms", finished.timings().queue_ms()},
                     {"prefill_ms", finished.timings().prefill_ms()},
                     {"decode_ms", finished.timings().decode_ms()},
                     {"preemptions", finished.timings().preemptions()}};
  return json;
}

// The continuation an event is about; nothing for an index that the request cannot have.
Continuation* At(StreamResult& result, int index, int count) {
  if (index < 0 || index >= count) return nullptr;
  if (static_cast<size_t>(index) >= result.continuations.size()) {
    result.continuations.resize(index + 1);
  }
  return &result.continuations[index];
}

std::string Heading(int index, int count) {
  return absl::StrFormat("--- continuation %d of %d\n", index + 1, count);
}

void TakeDelta(const v1::Delta& delta, Clock::time_point start, bool print, Continuation& into,
               StreamResult& result) {
  if (result.first_text_ms < 0 && !delta.text().empty()) result.first_text_ms = MsSince(start);
  into.text += delta.text();
  into.token_ids.insert(into.token_ids.end(), delta.token_ids().begin(), delta.token_ids().end());
  for (const v1::TokenLogprob& token : delta.logprobs()) into.logprobs.push_back(token);
  if (print && delta.index() == 0) PrintText(delta.text());
}

// Adds one response of `count` continuations to the result.
void Take(const v1::GenerateResponse& response, int count, Clock::time_point start, bool print,
          StreamResult& result) {
  if (response.has_started()) {
    Continuation* continuation = At(result, response.started().index(), count);
    if (continuation == nullptr) return;
    continuation->started = response.started();
    if (print && count > 1 && response.started().index() == 0) PrintText(Heading(0, count));
  } else if (response.has_delta()) {
    Continuation* continuation = At(result, response.delta().index(), count);
    if (continuation != nullptr) TakeDelta(response.delta(), start, print, *continuation, result);
  } else if (response.has_finished()) {
    Continuation* continuation = At(result, response.finished().index(), count);
    if (continuation != nullptr) continuation->finished = response.finished();
  }
}

}  // namespace

StreamResult RunStream(InferenceClient& client, CancellableCall& call,
                       const v1::GenerateRequest& request, bool print) {
  StreamResult result;
  const Clock::time_point start = Clock::now();
  const int count = std::max(request.sampling().n(), 1);  // unset: 0
  result.status = client.Generate(request, call, [&](const v1::GenerateResponse& response) {
    Take(response, count, start, print, result);
  });
  result.total_ms = MsSince(start);
  if (!print || (result.first_text_ms < 0 && !result.status.ok())) return result;
  PrintText("\n");
  for (size_t i = 1; i < result.continuations.size(); ++i) {
    PrintText(
        absl::StrCat(Heading(static_cast<int>(i), count), result.continuations[i].text, "\n"));
  }
  return result;
}

std::string LogprobTables(const StreamResult& result) {
  std::string tables;
  if (result.continuations.empty()) return tables;
  const auto& prompt = result.continuations[0].started.prompt_logprobs();
  if (!prompt.empty()) tables += LogprobTable("Prompt logprobs", {prompt.begin(), prompt.end()});
  for (size_t i = 0; i < result.continuations.size(); ++i) {
    if (result.continuations[i].logprobs.empty()) continue;
    const std::string which =
        result.continuations.size() > 1 ? absl::StrCat(" of continuation ", i + 1) : "";
    tables += LogprobTable(absl::StrCat("Logprobs", which), result.continuations[i].logprobs);
  }
  return tables;
}

nlohmann::ordered_json ToJson(const StreamResult& result) {
  nlohmann::ordered_json json;
  json["request_id"] =
      result.continuations.empty() ? "" : result.continuations[0].started.request_id();
  json["choices"] = nlohmann::ordered_json::array();
  for (const Continuation& continuation : result.continuations) {
    json["choices"].push_back(ToJson(continuation));
  }
  json["first_text_ms"] = result.first_text_ms;
  json["total_ms"] = result.total_ms;
  return json;
}

std::string Summary(const StreamResult& result) {
  int64_t num_generated = 0;
  std::vector<std::string> reasons;
  for (const Continuation& continuation : result.continuations) {
    num_generated += continuation.finished.usage().completion_tokens();
    reasons.emplace_back(ReasonName(continuation.finished.finish_reason()));
  }
  if (result.continuations.empty()) return "no answer";
  const v1::Finished& first = result.continuations[0].finished;
  const double decode_ms = first.timings().decode_ms();
  const auto steps = static_cast<double>(first.usage().completion_tokens() - 1);
  return absl::StrFormat(
      "%d prompt tokens (%d cached), %d generated, finish reason %s; queue %.1f ms, prefill %.1f "
      "ms, decode %.1f ms (%.0f tokens/s), in all %.1f ms",
      first.usage().prompt_tokens(), first.usage().cached_tokens(), num_generated,
      absl::StrJoin(reasons, ", "), first.timings().queue_ms(), first.timings().prefill_ms(),
      decode_ms, decode_ms > 0 ? steps * 1000.0 / decode_ms : 0.0, result.total_ms);
}

}  // namespace quire::client

// The calls of a Quire server, over gRPC. Only the source behind this header includes gRPC's
// headers: each source that includes them takes ten seconds to compile.
#pragma once

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "quire/v1/inference.pb.h"

namespace quire::client {

// A call that another thread may end early; for one call.
class CancellableCall {
 public:
  // `timeout_seconds` from now on; 0 means as long as it takes.
  explicit CancellableCall(double timeout_seconds = 0);
  ~CancellableCall();
  CancellableCall(const CancellableCall&) = delete;
  CancellableCall& operator=(const CancellableCall&) = delete;

  // Ends the call with CANCELLED, soon. A call that begins later ends at once. Any thread.
  void Cancel();

 private:
  friend class InferenceClient;
  struct Context;
  const std::unique_ptr<Context> context_;
};

// The answer to a health check: "SERVING", "NOT_SERVING", ...
struct Health {
  bool serving = false;
  std::string answer;
};

// Statuses have gRPC's codes, which are also absl::Status's codes, and the message of the server or
// of gRPC (failure.h makes a sentence of it). Calls block; one thread at a time.
class InferenceClient {
 public:
  // `target` is HOST:PORT, after https:// for TLS. Calls carry the key of QUIRE_API_KEY, if there
  // is one. Nothing is connected yet: a call does that.
  explicit InferenceClient(const std::string& target);
  ~InferenceClient();
  InferenceClient(const InferenceClient&) = delete;
  InferenceClient& operator=(const InferenceClient&) = delete;

  // Gives each response to `on_response` as it comes. Returns the status of the whole call.
  absl::Status Generate(const v1::GenerateRequest& request, CancellableCall& call,
                        absl::FunctionRef<void(const v1::GenerateResponse&)> on_response);

  // `timeout_seconds` 0 means as long as it takes.
  absl::StatusOr<v1::GetModelResponse> GetModel(double timeout_seconds = 0);
  absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request);
  absl::StatusOr<v1::DetokenizeResponse> Detokenize(const v1::DetokenizeRequest& request);

  absl::StatusOr<v1::GetStatusResponse> GetStatus();
  absl::StatusOr<v1::AbortResponse> Abort(const v1::AbortRequest& request);
  absl::StatusOr<v1::FlushPrefixCacheResponse> FlushPrefixCache();

  // grpc.health.v1.Health/Check of `service`; empty asks for the whole server. With
  // `wait_for_ready` the call waits for a connection until the timeout; otherwise it fails at once
  // if there is none. (Retrying calls that fail at once is slow: between calls nobody drives the
  // channel.)
  absl::StatusOr<Health> CheckHealth(const std::string& service, double timeout_seconds,
                                     bool wait_for_ready);

 private:
  struct Stubs;
  const std::unique_ptr<Stubs> stubs_;
};

}  // namespace quire::client

// A request's responses as vllm.GenerateResponse on one call: each one of a stream, or all in one.
// Both delete themselves with the last one. As ResponseSink says of threads.
#pragma once

#include <functional>
#include <vector>

#include "server/call/grpc_call.h"
#include "server/observe/log/access_entry.h"
#include "server/request/output/response_collector.h"
#include "server/request/output/response_sink.h"
#include "vllm/inference.pb.h"

namespace quire {

// What of a request decides how its answer looks.
struct VllmAnswerOptions {
  explicit VllmAnswerOptions(const ::vllm::GenerateRequest& request);

  bool text, token_ids, logprobs, candidates;  // of the output
  bool prompt_logprobs, prompt_candidates;     // of the prompt
  std::vector<uint32_t> prompt_ids;            // to be told
  std::vector<uint32_t> stop_token_ids;        // sorted
};

class VllmStreamSink final : public ResponseSink {
 public:
  VllmStreamSink(GrpcCallRef call, const ::vllm::GenerateRequest& request)
      : call_(std::move(call)), options_(request) {}

  void SetReadyCallback(std::function<void()> on_ready) override {
    on_ready_ = std::move(on_ready);
  }
  void Send(v1::GenerateResponse response) override;
  void SendLast(v1::GenerateResponse response) override;
  void End(const absl::Status& status) override;

 private:
  void Forward(const v1::GenerateResponse& response, const std::function<void()>& on_sent);

  const GrpcCallRef call_;
  const VllmAnswerOptions options_;
  std::function<void()> on_ready_;
  bool has_prompt_info_ = false;
  AccessEntry access_;
};

class VllmOnceSink final : public ResponseSink {
 public:
  VllmOnceSink(GrpcCallRef call, const ::vllm::GenerateRequest& request)
      : call_(std::move(call)), options_(request) {}

  void SetReadyCallback(std::function<void()> on_ready) override {
    on_ready_ = std::move(on_ready);
  }
  bool KeepsAnswer() const override { return true; }
  void Send(v1::GenerateResponse response) override;
  void SendLast(v1::GenerateResponse response) override;
  void End(const absl::Status& status) override;

 private:
  void Take(const v1::GenerateResponse& response);

  const GrpcCallRef call_;
  const VllmAnswerOptions options_;
  std::function<void()> on_ready_;
  ::vllm::GenerateResponse answer_;
  AccessEntry access_;
};

}  // namespace quire

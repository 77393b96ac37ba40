// VllmEngineSink: a request's responses as vllm.grpc.engine.GenerateResponse on one call. Deletes
// itself with the last one. As ResponseSink says of threads.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "server/call/grpc_call.h"
#include "server/observe/log/access_entry.h"
#include "server/request/output/response_sink.h"
#include "vllm/grpc/engine/vllm_engine.pb.h"

namespace quire {

class VllmEngineSink final : public ResponseSink {
 public:
  // Of `request`: whether it is streamed, and which logprobs it wants.
  VllmEngineSink(GrpcCallRef call, const ::vllm::grpc::engine::GenerateRequest& request);

  void SetReadyCallback(std::function<void()> on_ready) override {
    on_ready_ = std::move(on_ready);
  }
  bool KeepsAnswer() const override { return true; }  // the last message repeats its ids
  size_t AnswerBytes(const v1::GenerateResponse&) const override { return 0; }  // .. of each, alone
  void Send(v1::GenerateResponse response) override;
  void SendLast(v1::GenerateResponse response) override;
  void End(const absl::Status& status) override;

 private:
  struct Output {
    ::vllm::grpc::engine::GenerateComplete complete;  // so far
    bool has_chunk = false;
  };

  // Nothing where the router hears of it later.
  std::optional<::vllm::grpc::engine::GenerateResponse> Convert(
      const v1::GenerateResponse& response);
  Output& OutputAt(int32_t index);
  void TakeStart(const v1::Started& started);
  ::vllm::grpc::engine::GenerateResponse MakeChunk(const v1::Delta& delta, Output& output);
  ::vllm::grpc::engine::GenerateResponse MakeComplete(const v1::Finished& finished);

  const GrpcCallRef call_;
  const bool streams_;
  const bool wants_top_, wants_prompt_top_;
  std::function<void()> on_ready_;
  std::vector<Output> outputs_;
  std::optional<::vllm::grpc::engine::InputLogProbs> prompt_logprobs_;  // of every output
  AccessEntry access_;
};

}  // namespace quire

// VllmEngineWriter: an answer as vllm.grpc.engine.GenerateResponse on one call.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "server/call/grpc_call.h"
#include "server/request/output/answer_writer.h"
#include "vllm/grpc/engine/vllm_engine.pb.h"

namespace quire {

class VllmEngineWriter final : public AnswerWriter {
 public:
  // `request` says whether the answer is streamed, and which logprobs it has.
  VllmEngineWriter(GrpcCallRef call, const ::vllm::grpc::engine::GenerateRequest& request);

  bool KeepsAnswer() const override { return true; }  // the last message repeats its ids
  size_t AnswerBytes(const AnswerPart&) const override { return 0; }  // each message is small
  void Write(AnswerPart part, const std::function<void()>& on_ready) override;
  void End(const absl::Status& status, AccessEntry access) override;

 private:
  struct Output {
    ::vllm::grpc::engine::GenerateComplete complete;  // so far
    bool has_chunk = false;
  };

  // Nothing if the router hears of it later.
  std::optional<::vllm::grpc::engine::GenerateResponse> Convert(const AnswerPart& part);
  Output& OutputAt(int32_t index);
  void TakeStart(const Started& started);
  ::vllm::grpc::engine::GenerateResponse MakeChunk(const Delta& delta, Output& output);
  ::vllm::grpc::engine::GenerateResponse MakeComplete(const Finished& finished);

  const GrpcCallRef call_;
  const bool streams_;
  const bool wants_top_, wants_prompt_top_;
  std::vector<Output> outputs_;
  std::optional<::vllm::grpc::engine::InputLogProbs> prompt_logprobs_;  // of every output
};

}  // namespace quire

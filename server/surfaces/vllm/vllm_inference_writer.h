// An answer as vllm.GenerateResponse on one call: each part is a message of a stream, or all are in
// one.
#pragma once

#include <functional>
#include <vector>

#include "server/call/grpc_call.h"
#include "server/request/output/answer_writer.h"
#include "vllm/inference.pb.h"

namespace quire {

// The fields of a request that decide how its answer looks.
struct VllmAnswerOptions {
  explicit VllmAnswerOptions(const ::vllm::GenerateRequest& request);

  bool text, token_ids, logprobs, candidates;  // of the output
  bool prompt_logprobs, prompt_candidates;     // those that the answer repeats
  std::vector<uint32_t> prompt_ids;            // to be told
  std::vector<TokenId> stop_token_ids;         // sorted
};

class VllmStreamWriter final : public AnswerWriter {
 public:
  VllmStreamWriter(GrpcCallRef call, const ::vllm::GenerateRequest& request)
      : call_(std::move(call)), options_(request) {}

  void Write(AnswerPart part, const std::function<void()>& on_ready) override;
  void End(const absl::Status& status, AccessEntry access) override;

 private:
  const GrpcCallRef call_;
  const VllmAnswerOptions options_;
  bool has_prompt_info_ = false;
};

class VllmOnceWriter final : public AnswerWriter {
 public:
  VllmOnceWriter(GrpcCallRef call, const ::vllm::GenerateRequest& request)
      : call_(std::move(call)), options_(request) {}

  bool KeepsAnswer() const override { return true; }
  void Write(AnswerPart part, const std::function<void()>& on_ready) override;
  void End(const absl::Status& status, AccessEntry access) override;

 private:
  const GrpcCallRef call_;
  const VllmAnswerOptions options_;
  ::vllm::GenerateResponse answer_;
};

}  // namespace quire

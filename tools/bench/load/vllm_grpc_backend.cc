// vLLM's gRPC contract, vllm.grpc.engine.VllmEngine. It streams ids, no text.

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/wire/client/grpc_messages.h"
#include "tools/bench/load/grpc_problem.h"
#include "tools/bench/load/load_backend.h"
#include "vllm/grpc/engine/vllm_engine.pb.h"

namespace quire::bench {

namespace {

namespace engine = ::vllm::grpc::engine;

constexpr char kUnreadableVllm[] = "the answer is no vllm.grpc.engine.GenerateResponse";

class VllmDecoder final : public AnswerDecoder {
 public:
  explicit VllmDecoder(bool keeps_answer) : keeps_answer_(keeps_answer) {}

  void Take(std::string_view bytes, AnswerSoFar* answer) override {
    messages_.Add(bytes);
    std::string_view message;
    while (messages_.Next(&message)) {
      if (!response_.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
        answer->problem = kUnreadableVllm;
      } else if (response_.has_chunk()) {
        const auto& ids = response_.chunk().token_ids();
        answer->num_tokens += ids.size();
        if (keeps_answer_)
          answer->token_ids.insert(answer->token_ids.end(), ids.begin(), ids.end());
      } else {
        const engine::GenerateComplete& complete = response_.complete();
        answer->prompt_tokens = complete.prompt_tokens();
        answer->cached_tokens = complete.cached_tokens();
        answer->completion_tokens = complete.completion_tokens();
      }
    }
    if (messages_.is_broken()) answer->problem = kUnreadableVllm;
  }

 private:
  const bool keeps_answer_;
  MessageReader messages_;
  engine::GenerateResponse response_;
};

class VllmGrpcBackend final : public LoadBackend {
 public:
  explicit VllmGrpcBackend(BackendOptions options) : options_(std::move(options)) {}

  bool is_http2() const override { return true; }

  ClientRequest ModelRequest() const override {
    return GrpcRequest("/vllm.grpc.engine.VllmEngine/GetModelInfo", "", options_.authorization,
                       options_.headers);
  }

  absl::StatusOr<ServedModel> ReadModel(const std::string& body) override {
    engine::GetModelInfoResponse model;
    const std::string_view message = OnlyMessage(body);
    if (!model.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
      return absl::InternalError("the server's model is no GetModelInfoResponse");
    }
    return ServedModel{.name = model.served_model_name(),
                       .vocab_size = model.vocab_size(),
                       .max_model_len = model.max_context_length(),
                       .lines = {{"model", absl::StrCat(model.served_model_name(), ", context of ",
                                                        model.max_context_length(), " tokens")}}};
  }

  std::vector<ClientRequest> FlushRequests() const override {
    return {GrpcRequest("/vllm.grpc.engine.VllmEngine/FlushCache", "", options_.authorization,
                        options_.headers)};
  }

  ClientRequest GenerateRequest(const WorkItem& item, uint64_t seed,
                                const std::string& id) const override {
    engine::GenerateRequest request;
    request.set_request_id(id);
    if (item.prompt.empty()) {
      request.set_text(item.text);
    } else {
      request.mutable_tokenized()->mutable_input_ids()->Add(item.prompt.begin(), item.prompt.end());
    }
    request.set_stream(true);
    const SamplingFlags& flags = options_.sampling;
    engine::SamplingParams& sampling = *request.mutable_sampling_params();
    sampling.set_temperature(flags.temperature);
    sampling.set_top_p(flags.top_p);
    sampling.set_top_k(static_cast<uint32_t>(flags.top_k));
    sampling.set_min_p(flags.min_p);
    sampling.set_repetition_penalty(flags.repetition_penalty);
    sampling.set_presence_penalty(flags.presence_penalty);
    sampling.set_frequency_penalty(flags.frequency_penalty);
    sampling.set_max_tokens(static_cast<uint32_t>(item.output_len));
    sampling.mutable_stop()->Add(item.stop.begin(), item.stop.end());
    sampling.set_ignore_eos(flags.ignore_eos);
    sampling.set_seed(static_cast<int32_t>(seed & 0x7fffffff));
    if (!options_.json_schema.empty()) sampling.set_json_schema(options_.json_schema);
    return GrpcRequest(
        options_.endpoint.empty() ? "/vllm.grpc.engine.VllmEngine/Generate" : options_.endpoint,
        request.SerializeAsString(), options_.authorization, options_.headers);
  }

  std::unique_ptr<AnswerDecoder> NewDecoder() const override {
    return std::make_unique<VllmDecoder>(options_.keeps_answers);
  }

  std::string Problem(const AnswerEnd& end, std::string_view) const override {
    return GrpcProblem(end);
  }

 private:
  const BackendOptions options_;
};

}  // namespace

std::unique_ptr<LoadBackend> MakeVllmGrpcBackend(BackendOptions options) {
  return std::make_unique<VllmGrpcBackend>(std::move(options));
}

}  // namespace quire::bench

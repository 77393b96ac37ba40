// Our own gRPC contract, quire.v1.Inference.

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "quire/v1/inference.pb.h"
#include "server/wire/client/grpc_messages.h"
#include "tools/bench/load/grpc_problem.h"
#include "tools/bench/load/load_backend.h"

namespace quire::bench {

namespace {

constexpr char kUnreadable[] = "the answer is no quire.v1.GenerateResponse";

void TakeLogprobs(const google::protobuf::RepeatedPtrField<v1::TokenLogprob>& tokens,
                  std::vector<float>* logprobs) {
  for (const v1::TokenLogprob& token : tokens) {
    if (token.has_logprob()) logprobs->push_back(token.logprob());
  }
}

void Keep(const v1::Delta& delta, AnswerSoFar* answer) {
  answer->text.append(delta.text());
  answer->token_ids.insert(answer->token_ids.end(), delta.token_ids().begin(),
                           delta.token_ids().end());
  TakeLogprobs(delta.logprobs(), &answer->logprobs);
}

void TakeResponse(const v1::GenerateResponse& response, bool keeps_answer, AnswerSoFar* answer) {
  switch (response.event_case()) {
    case v1::GenerateResponse::kStarted:
      answer->prompt_tokens = response.started().prompt_tokens();
      answer->cached_tokens = response.started().cached_tokens();
      if (keeps_answer)
        TakeLogprobs(response.started().prompt_logprobs(), &answer->prompt_logprobs);
      break;
    case v1::GenerateResponse::kDelta:
      answer->num_tokens += response.delta().token_ids_size();
      if (keeps_answer) Keep(response.delta(), answer);
      break;
    case v1::GenerateResponse::kFinished:
      answer->completion_tokens = response.finished().usage().completion_tokens();
      break;
    case v1::GenerateResponse::EVENT_NOT_SET:
      break;
  }
}

class QuireDecoder final : public AnswerDecoder {
 public:
  explicit QuireDecoder(bool keeps_answer) : keeps_answer_(keeps_answer) {}

  void Take(std::string_view bytes, AnswerSoFar* answer) override {
    messages_.Add(bytes);
    std::string_view message;
    while (messages_.Next(&message)) {
      if (response_.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
        TakeResponse(response_, keeps_answer_, answer);
      } else {
        answer->problem = kUnreadable;
      }
    }
    if (messages_.is_broken()) answer->problem = kUnreadable;
  }

 private:
  const bool keeps_answer_;
  MessageReader messages_;
  v1::GenerateResponse response_;
};

class QuireBackend final : public LoadBackend {
 public:
  explicit QuireBackend(BackendOptions options) : options_(std::move(options)) {}

  bool is_http2() const override { return true; }

  ClientRequest ModelRequest() const override {
    return GrpcRequest("/quire.v1.Inference/GetModel", "", options_.authorization,
                       options_.headers);
  }

  absl::StatusOr<ServedModel> ReadModel(const std::string& body) override {
    v1::GetModelResponse model;
    const std::string_view message = OnlyMessage(body);
    if (!model.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
      return absl::InternalError("the server's model is no quire.v1.GetModelResponse");
    }
    std::vector<std::string> served(model.aliases().begin(), model.aliases().end());
    served.insert(served.begin(), model.name());
    RETURN_IF_ERROR(CheckServed(options_, served));
    return ServedModel{.name = model.name(),
                       .vocab_size = model.vocab_size(),
                       .max_model_len = model.max_model_len(),
                       .lines = {{"server", absl::StrCat("quire-server ", model.version())},
                                 {"model", absl::StrCat(model.name(), " (", model.architecture(),
                                                        "), ", model.dtype(), ", context of ",
                                                        model.max_model_len(), " tokens")},
                                 {"device", model.device()}}};
  }

  std::vector<ClientRequest> FlushRequests() const override {
    return {GrpcRequest("/quire.v1.Admin/FlushPrefixCache", "", options_.authorization,
                        options_.headers)};
  }

  ClientRequest GenerateRequest(const WorkItem& item, uint64_t seed,
                                const std::string& id) const override {
    v1::GenerateRequest request;
    request.set_request_id(id);
    request.set_model(options_.model);
    if (!item.messages.empty()) {
      for (const auto& [role, content] : item.messages) {
        v1::Message& message = *request.mutable_messages()->add_messages();
        message.set_role(role);
        message.set_content(content);
      }
    } else if (item.prompt.empty()) {
      request.mutable_text()->set_text(item.text);
    } else {
      request.mutable_token_ids()->mutable_ids()->Add(item.prompt.begin(), item.prompt.end());
    }
    const SamplingFlags& flags = options_.sampling;
    request.mutable_stop()->set_max_tokens(item.output_len);
    request.mutable_stop()->set_ignore_eos(flags.ignore_eos);
    v1::Sampling& sampling = *request.mutable_sampling();
    sampling.set_temperature(flags.temperature);
    sampling.set_top_p(flags.top_p);
    sampling.set_top_k(flags.top_k);
    sampling.set_min_p(flags.min_p);
    sampling.set_repetition_penalty(flags.repetition_penalty);
    sampling.set_presence_penalty(flags.presence_penalty);
    sampling.set_frequency_penalty(flags.frequency_penalty);
    sampling.set_seed(seed);
    request.mutable_stop()->mutable_stop_strings()->Add(item.stop.begin(), item.stop.end());
    request.mutable_output()->set_return_token_ids(true);
    if (!options_.json_schema.empty()) request.set_json_schema(options_.json_schema);
    if (options_.wants_logprobs) request.mutable_output()->set_logprobs(0);
    if (options_.wants_prompt_logprobs) request.mutable_output()->set_prompt_logprobs(0);
    return GrpcRequest(
        options_.endpoint.empty() ? "/quire.v1.Inference/Generate" : options_.endpoint,
        request.SerializeAsString(), options_.authorization, options_.headers);
  }

  std::unique_ptr<AnswerDecoder> NewDecoder() const override {
    return std::make_unique<QuireDecoder>(options_.keeps_answers);
  }

  std::string Problem(const AnswerEnd& end, std::string_view) const override {
    return GrpcProblem(end);
  }

 private:
  const BackendOptions options_;
};

}  // namespace

std::unique_ptr<LoadBackend> MakeQuireBackend(BackendOptions options) {
  return std::make_unique<QuireBackend>(std::move(options));
}

}  // namespace quire::bench

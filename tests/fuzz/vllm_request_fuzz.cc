// A GenerateRequest of vllm.grpc.engine or of vllm.Inference as it comes over the wire: it is
// refused in its own terms, or what becomes of it is a request that the engine accepts. Input: a
// byte that says which, then the bytes of the message.
#include <google/protobuf/stubs/logging.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "engine/request_check.h"
#include "kernels/base/check.h"
#include "server/request/field_error.h"
#include "server/request/parameters.h"
#include "server/surfaces/vllm/vllm_engine_request.h"
#include "server/surfaces/vllm/vllm_inference_request.h"
#include "tests/fuzz/target.h"

namespace quire::fuzz {
namespace {

namespace engine = ::vllm::grpc::engine;

ModelFacts Facts() {
  ModelFacts facts;
  facts.served_names = {"demo"};
  facts.vocab_size = 2048;
  facts.max_model_len = 512;
  facts.defaults.max_new_tokens = 7;
  facts.eos_token_ids = {2047};
  return facts;
}

void CheckRefusal(const absl::Status& status, std::initializer_list<const char*> foreign) {
  CHECK(absl::IsInvalidArgument(status) || absl::IsNotFound(status) ||
        absl::IsUnimplemented(status))
      << status;
  CHECK(!status.message().empty());
  const std::string field = FieldOf(status);
  CHECK(!field.empty()) << status;
  for (const char* part : foreign) CHECK(!absl::StartsWith(field, part)) << field;
}

// Checks that the engine takes a converted request; a text is one token long.
absl::Status Accept(const Generation& asked, const ModelFacts& facts) {
  absl::StatusOr<GenerationJob> job = ConvertParameters(asked, facts, /*random_seed=*/1);
  if (!job.ok()) return job.status();
  std::vector<TokenId> prompt = {1};
  if (const auto* sent = std::get_if<TokenIdsPrompt>(&asked.prompt)) {
    absl::StatusOr<std::vector<TokenId>> ids = ConvertPromptIds(*sent, facts, *job);
    if (!ids.ok()) return ids.status();
    prompt = *std::move(ids);
  }
  if (absl::Status set = SetPrompt(std::move(prompt), facts, &*job); !set.ok()) return set;
  ModelInfo info;
  info.config.vocab_size = facts.vocab_size;
  info.max_model_len = facts.max_model_len;
  const absl::Status checked = CheckRequest(job->request, info);
  CHECK(checked.ok()) << checked;
  CHECK(job->output.return_token_ids);
  ++num_accepted;
  return absl::OkStatus();
}

void TryEngine(const std::string& bytes, const ModelFacts& facts) {
  engine::GenerateRequest message;
  if (!message.ParseFromString(bytes)) return;
  const absl::StatusOr<Generation> asked = FromVllmEngine(message);
  const absl::Status status = asked.ok() ? Accept(*asked, facts) : asked.status();
  if (!status.ok()) CheckRefusal(status, {"sampling.", "stop.", "output.", "token_ids", "prompt"});
}

void TryInference(const std::string& bytes, const ModelFacts& facts) {
  ::vllm::GenerateRequest message;
  if (!message.ParseFromString(bytes)) return;
  const absl::StatusOr<Generation> asked = FromVllmInference(message, facts);
  const absl::Status status = asked.ok() ? Accept(*asked, facts) : asked.status();
  if (!status.ok()) CheckRefusal(status, {"stop.", "output."});
}

std::string EngineSeed() {
  engine::GenerateRequest message;
  message.set_request_id("id");
  for (const uint32_t id : {1, 2, 3}) message.mutable_tokenized()->add_input_ids(id);
  message.set_stream(true);
  engine::SamplingParams& params = *message.mutable_sampling_params();
  params.set_temperature(0.5f);
  params.set_top_p(0.9f);
  params.set_top_k(20);
  params.set_min_p(0.1f);
  params.set_frequency_penalty(0.5f);
  params.set_presence_penalty(0.5f);
  params.set_repetition_penalty(1.1f);
  params.set_max_tokens(9);
  params.set_min_tokens(1);
  params.add_stop("end");
  params.add_stop_token_ids(9);
  params.set_n(2);
  params.set_logprobs(2);
  params.set_prompt_logprobs(1);
  params.set_seed(-1);
  (*params.mutable_logit_bias())[5] = 1;
  params.set_truncate_prompt_tokens(2);
  params.set_json_schema("{\"type\":\"object\"}");
  return std::string(1, 0) + message.SerializeAsString();
}

std::string InferenceSeed() {
  ::vllm::GenerateRequest message;
  message.set_model("demo");
  for (const uint32_t id : {1, 2, 3}) message.mutable_token_ids()->add_ids(id);
  message.set_temperature(0.5f);
  message.mutable_sampling()->set_num_sequences(2);
  message.mutable_sampling()->set_top_k(4);
  message.mutable_sampling()->set_top_p(0.5f);
  message.mutable_sampling()->set_seed(-5);
  message.mutable_decoding()->set_repetition_penalty(1.2f);
  (*message.mutable_decoding()->mutable_logit_bias())[5] = 1;
  message.mutable_decoding()->mutable_choice()->add_choices("yes");
  message.mutable_stopping()->set_max_new_tokens(9);
  message.mutable_stopping()->add_stop_strings("end");
  message.mutable_response()->set_output_logprobs(true);
  message.mutable_response()->mutable_output_candidates()->set_top_n(3);
  message.mutable_kv()->set_bypass_prefix_cache(true);
  message.set_truncate_prompt_tokens(2);
  message.set_priority(3);
  return std::string(1, 1) + message.SerializeAsString();
}

}  // namespace

std::vector<std::string> Seeds() { return {EngineSeed(), InferenceSeed()}; }

std::vector<std::string> Dictionary() {
  using std::string_literals::operator""s;
  return {"\0\0\xC0\x7F"s, "\0\0\x80\x7F"s, "\0\0\x80\xFF"s, "\xFF\xFF\xFF\xFF\x0F",
          "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\1"};
}

}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;  // NOLINT(build/namespaces)
  static const ModelFacts& facts = *new ModelFacts(fuzz::Facts());
  const google::protobuf::LogSilencer no_lines_about_utf8;
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    fuzz::TryEngine(bytes, facts);
  } else {
    fuzz::TryInference(bytes, facts);
  }
  return 0;
}

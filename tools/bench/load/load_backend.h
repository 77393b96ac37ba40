// LoadBackend: knows how to ask a kind of server for tokens, and what its answers mean. It has no
// state except its settings. A decoder keeps what it has read of one answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/wire/client/client_connection.h"
#include "tools/bench/sampling_flags.h"
#include "tools/bench/workload.h"

namespace quire::bench {

// The content of an answer so far.
struct AnswerSoFar {
  int64_t num_tokens = 0;  // received tokens; for an OpenAI server, pieces of text
  // The server's counts; 0 if it does not say them.
  int64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  // Filled if the answer is kept; each as far as the server sends it.
  std::string text = {};
  std::vector<int32_t> token_ids = {};
  std::vector<float> logprobs = {};         // of the answer's tokens; OpenAI's echo has the
                                            // prompt's first
  std::vector<float> prompt_logprobs = {};  // of the prompt's tokens, except the first
  std::string finish_reason = {};           // as OpenAI's servers call it: "stop", "length"
  std::string problem = {};                 // the server's message, or why the answer is unreadable
};

class AnswerDecoder {
 public:
  virtual ~AnswerDecoder() = default;
  // The next bytes of the body, cut anywhere.
  virtual void Take(std::string_view bytes, AnswerSoFar* answer) = 0;
  // No more bytes come. Says what is wrong with the answer, unless a problem is known already.
  virtual void End(AnswerSoFar*) const {}
};

// The served model, as far as the server describes it.
struct ServedModel {
  std::string name;
  int64_t vocab_size = 0;     // 0: not said
  int64_t max_model_len = 0;  // 0: not said
  // For the header of a run: label, text.
  std::vector<std::pair<std::string, std::string>> lines;
};

struct BackendOptions {
  std::string endpoint = {};       // path; empty: the backend's own
  std::string model = {};          // the name to ask for; empty: the first one that is served
  SamplingFlags sampling = {};     // all of it is sent
  HeaderList headers = {};         // further ones
  std::string extra_body = {};     // a JSON object whose members are added; OpenAI's only
  std::string json_schema = {};    // what every answer must be, as JSON text; empty: anything
  std::string authorization = {};  // "Bearer ...", or empty
  bool keeps_answers = false;      // texts, token ids and logprobs are wanted
  bool wants_logprobs = false;     // of generated tokens
  bool wants_prompt_logprobs = false;
};

// An error if the model of `options` is not among `served`; it lists the served models.
absl::Status CheckServed(const BackendOptions& options, const std::vector<std::string>& served);

class LoadBackend {
 public:
  virtual ~LoadBackend() = default;
  virtual bool is_http2() const = 0;

  virtual ClientRequest ModelRequest() const = 0;
  virtual absl::StatusOr<ServedModel> ReadModel(const std::string& body) = 0;

  // Requests that empty the prefix cache, one on each kind of server that the backend asks: the
  // first that works is enough.
  virtual std::vector<ClientRequest> FlushRequests() const = 0;

  // `id` is unique to the run.
  virtual ClientRequest GenerateRequest(const WorkItem& item, uint64_t seed,
                                        const std::string& id) const = 0;
  virtual std::unique_ptr<AnswerDecoder> NewDecoder() const = 0;
  // The problem of an answer with this end, in a sentence; empty: none. If the status is an error,
  // the decoder does not get the body; `body` is then the received part of it.
  virtual std::string Problem(const AnswerEnd& end, std::string_view body) const = 0;
};

// The names of --backend: first our own, then vLLM's names.
inline constexpr const char* kBackendNames[] = {"quire", "vllm-grpc", "openai", "openai-chat"};
// CHECKs the name.
std::unique_ptr<LoadBackend> MakeLoadBackend(std::string_view name, BackendOptions options);

std::unique_ptr<LoadBackend> MakeQuireBackend(BackendOptions options);
std::unique_ptr<LoadBackend> MakeVllmGrpcBackend(BackendOptions options);
std::unique_ptr<LoadBackend> MakeOpenAiBackend(BackendOptions options, bool is_chat);

}  // namespace quire::bench

#include "tests/engine/tiny_engine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "absl/strings/str_cat.h"

namespace quire::testing {

std::string MakeTinyModelFolder() {
  const std::string folder =
      absl::StrCat(::testing::TempDir(), "quire_tiny_model_", static_cast<int>(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/config.json") << R"({
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 64,
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": true,
    "torch_dtype": "float32", "eos_token_id": 63})";
  return folder;
}

EngineConfig TinyConfig(const std::string& folder) {
  EngineConfig config;
  config.model_folder = folder;
  config.load_format = LoadFormat::kDummy;
  config.dtype = DType::kF32;
  config.num_threads = 2;
  config.max_num_seqs = 16;
  config.max_num_batched_tokens = 128;
  config.kv_cache_memory_bytes = int64_t{4} << 20;
  return config;
}

void Waiter::OnOutput(const std::shared_ptr<OutputStream>&) {
  {
    std::lock_guard lock(mutex_);
    news_ = true;
  }
  changed_.notify_all();
}

void Waiter::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return news_; });
  news_ = false;
}

std::vector<Answer> ReadAll(OutputStream& stream, Waiter& waiter) {
  std::vector<Answer> answers(stream.num_continuations());
  int num_unfinished = stream.num_continuations();
  while (num_unfinished > 0) {
    SequenceEvent event;
    if (!stream.Read(&event)) {
      waiter.Wait();
      continue;
    }
    Answer& answer = answers[event.key.index];
    switch (event.kind) {
      case SequenceEvent::Kind::kStarted:
        answer.cached_tokens = event.num_cached_tokens;
        break;
      case SequenceEvent::Kind::kToken:
        answer.tokens.push_back(event.token);
        if (event.logprobs != nullptr) answer.logprobs.push_back(*event.logprobs);
        break;
      case SequenceEvent::Kind::kPromptLogprobs:
        for (auto& entry : event.prompt_logprobs) answer.prompt_logprobs.push_back(entry);
        break;
      case SequenceEvent::Kind::kFinished:
        answer.reason = event.reason;
        answer.matched_token = event.matched_token;
        answer.status = stream.status(event.key.index);
        --num_unfinished;
        break;
    }
  }
  return answers;
}

Answer Generate(Engine& engine, const Request& request) {
  static Waiter waiter;  // outlives every engine
  auto stream = engine.Submit(request, &waiter);
  EXPECT_TRUE(stream.ok()) << stream.status();
  if (!stream.ok()) return {};
  return ReadAll(**stream, waiter).at(0);
}

Request GreedyRequest(std::vector<TokenId> prompt, int64_t max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.stop.max_tokens = max_tokens;
  return request;
}

std::vector<TokenId> RandomPrompt(int64_t length, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> prompt(length);
  for (TokenId& token : prompt) token = static_cast<TokenId>(random() % 63);
  return prompt;
}

}  // namespace quire::testing

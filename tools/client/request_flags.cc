#include "tools/client/request_flags.h"

#include <charconv>
#include <cstdlib>

#include "CLI/CLI.hpp"

namespace quire::client {

namespace {

constexpr char kOutput[] = "Output";
constexpr char kRequest[] = "Request";

// Splits "ID=BIAS"; false when it is something else.
bool ParseLogitBias(const std::string& text, uint32_t* token, float* bias) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals + 1 == text.size()) return false;
  const auto parsed = std::from_chars(text.data(), text.data() + equals, *token);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + equals) return false;
  char* end = nullptr;
  *bias = std::strtof(text.c_str() + equals + 1, &end);
  return *end == '\0';
}

}  // namespace

void AddRequestFlags(CLI::App& command, RequestFlags* flags) {
  const std::string sampling = "Sampling";
  command.add_option("--temperature", flags->temperature, "0 = greedy")->group(sampling);
  command.add_option("--top-p", flags->top_p, "Nucleus sampling, 1 = off")->group(sampling);
  command.add_option("--top-k", flags->top_k, "0 = off")->group(sampling);
  command.add_option("--min-p", flags->min_p, "0 = off")->group(sampling);
  command.add_option("--repetition-penalty", flags->repetition_penalty, "1 = off")->group(sampling);
  command.add_option("--presence-penalty", flags->presence_penalty, "0 = off")->group(sampling);
  command.add_option("--frequency-penalty", flags->frequency_penalty, "0 = off")->group(sampling);
  command.add_option("--seed", flags->seed, "Makes sampling repeatable")->group(sampling);
  command.add_option("--logit-bias", flags->logit_bias, "ID=BIAS; may be repeated")
      ->allow_extra_args(false)
      ->group(sampling);
  const std::string stopping = "Stopping";
  command.add_option("--max-tokens", flags->max_tokens, "Default: to the context's end")
      ->group(stopping);
  command.add_option("--min-tokens", flags->min_tokens, "No end token before this many")
      ->group(stopping);
  command.add_option("--stop", flags->stop_strings, "Stop string; may be repeated")
      ->allow_extra_args(false)
      ->group(stopping);
  command.add_option("--stop-token-id", flags->stop_token_ids, "May be repeated")
      ->allow_extra_args(false)
      ->group(stopping);
  command.add_flag("--ignore-eos", flags->ignore_eos, "Go on after end tokens")->group(stopping);
  command.add_flag("--include-stop", flags->include_stop, "Keep the stop string in the text")
      ->group(stopping);
  AddConstraintFlags(command, &flags->constraint);
  command.add_flag("--keep-special-tokens", flags->keep_special_tokens, "Show them in the text")
      ->group(kOutput);
  command.add_option("--model", flags->model, "Name of the model the server must serve")
      ->group(kRequest);
  command.add_option("--priority", flags->priority, "Lower runs first")->group(kRequest);
  command.add_option("--cache-salt", flags->cache_salt, "Keeps the prefix cache apart")
      ->group(kRequest);
}

void AddSingleRequestFlags(CLI::App& command, RequestFlags* flags) {
  command.add_option("-n,--n", flags->n, "Continuations of the same prompt")->group("Sampling");
  command.add_option("--logprobs", flags->logprobs, "Alternatives per token, 0 to 20")
      ->group(kOutput);
  command.add_option("--prompt-logprobs", flags->prompt_logprobs, "Likewise for the prompt")
      ->group(kOutput);
  command.add_option("--request-id", flags->request_id, "Name of the request, for quire abort")
      ->group(kRequest);
}

std::string ApplyRequestFlags(const RequestFlags& flags, v1::GenerateRequest* request) {
  v1::Sampling& sampling = *request->mutable_sampling();
  if (flags.temperature) sampling.set_temperature(*flags.temperature);
  if (flags.top_p) sampling.set_top_p(*flags.top_p);
  if (flags.top_k) sampling.set_top_k(*flags.top_k);
  if (flags.min_p) sampling.set_min_p(*flags.min_p);
  if (flags.repetition_penalty) sampling.set_repetition_penalty(*flags.repetition_penalty);
  if (flags.presence_penalty) sampling.set_presence_penalty(*flags.presence_penalty);
  if (flags.frequency_penalty) sampling.set_frequency_penalty(*flags.frequency_penalty);
  if (flags.seed) sampling.set_seed(*flags.seed);
  if (flags.n) sampling.set_n(*flags.n);
  for (const std::string& entry : flags.logit_bias) {
    uint32_t token = 0;
    float bias = 0;
    if (!ParseLogitBias(entry, &token, &bias)) {
      return "--logit-bias takes TOKEN_ID=BIAS, for example 42=-100, not " + entry;
    }
    (*sampling.mutable_logit_bias())[token] = bias;
  }
  v1::Stop& stop = *request->mutable_stop();
  if (flags.max_tokens) stop.set_max_tokens(*flags.max_tokens);
  if (flags.min_tokens) stop.set_min_tokens(*flags.min_tokens);
  for (const std::string& text : flags.stop_strings) stop.add_stop_strings(text);
  for (const uint32_t id : flags.stop_token_ids) stop.add_stop_token_ids(id);
  if (flags.ignore_eos) stop.set_ignore_eos(true);
  if (flags.include_stop) stop.set_include_stop_in_output(true);
  v1::Output& output = *request->mutable_output();
  if (flags.logprobs) output.set_logprobs(*flags.logprobs);
  if (flags.prompt_logprobs) output.set_prompt_logprobs(*flags.prompt_logprobs);
  if (flags.keep_special_tokens) output.set_skip_special_tokens(false);
  request->set_priority(flags.priority);
  request->set_cache_salt(flags.cache_salt);
  request->set_request_id(flags.request_id);
  request->set_model(flags.model);
  return std::string(ApplyConstraintFlags(flags.constraint, request).message());
}

}  // namespace quire::client

#include "server/request/output/answer_builder.h"

#include <algorithm>
#include <utility>

#include "kernels/base/check.h"
#include "server/text/tokenizer/stop_matcher.h"
#include "server/text/tokenizer/stream_decoder.h"
#include "server/text/utf8.h"

namespace quire {

// The state of one continuation, and the part of it that has not been sent.
struct AnswerBuilder::Continuation {
  Continuation(const std::shared_ptr<const Tokenizer>& tokenizer, const OutputOptions& options,
               const StopMatcher& stops)
      : decoder(tokenizer, options.skip_special_tokens, options.shown_special_tokens),
        matcher(stops) {}

  StreamDecoder decoder;
  StopMatcher matcher;
  int64_t num_tokens = 0;      // generated, up to the one that completed a stop string
  int64_t num_characters = 0;  // decoded; counted where tokens have logprobs
  int64_t num_cached_tokens = 0;

  bool has_begun = false;  // kStarted came
  bool start_is_complete = false;
  bool start_was_sent = false;
  Started started;

  bool has_delta = false;
  Delta delta;

  bool has_finished = false;  // `finished` waits to be sent
  Finished finished;

  bool start_is_due() const { return start_is_complete && !start_was_sent; }
  bool has_part() const { return start_is_due() || has_delta || has_finished; }
};

// Where a prompt's tokens begin in its text, in characters: what a tokenizer put around the text
// has no width, special tokens that were spelled in it have theirs.
class AnswerBuilder::PromptOffsets {
 public:
  PromptOffsets(const std::shared_ptr<const Tokenizer>& tokenizer, const GenerationJob& job)
      : decoder_(tokenizer, /*skip_special_tokens=*/false), end_(job.request.prompt.size()) {
    if (!job.output.prompt_has_added_tokens) return;
    const std::vector<TokenId>& prompt = job.request.prompt;
    const std::vector<TokenId>& before = tokenizer->added_before();
    const std::vector<TokenId>& after = tokenizer->added_after();
    // A prompt that was truncated has lost what was before it.
    if (prompt.size() >= before.size() &&
        std::equal(before.begin(), before.end(), prompt.begin())) {
      begin_ = before.size();
    }
    if (prompt.size() >= begin_ + after.size()) end_ -= after.size();
  }

  // To be called with each token in turn.
  int64_t Next(TokenId token) {
    const int64_t offset = num_characters_;
    if (num_tokens_ >= begin_ && num_tokens_ < end_) {
      num_characters_ += static_cast<int64_t>(CountCharacters(decoder_.Append(token)));
    }
    ++num_tokens_;
    return offset;
  }

 private:
  StreamDecoder decoder_;
  size_t begin_ = 0, end_;  // the tokens of the text
  size_t num_tokens_ = 0;
  int64_t num_characters_ = 0;
};

namespace {

double MillisecondsBetween(absl::Time begin, absl::Time end) {
  return std::max(0.0, absl::ToDoubleMilliseconds(end - begin));
}

// A continuation that ended before it was scheduled, or before its first token, spent its time in
// the stage it was in.
Timings TimingsOf(const RequestTimes& times, int32_t num_preemptions) {
  const auto or_end = [&](absl::Time time) { return time == absl::Time() ? times.finished : time; };
  const absl::Time first_scheduled = or_end(times.first_scheduled);
  const absl::Time first_token = or_end(times.first_token);
  return {.queue_ms = MillisecondsBetween(times.submitted, first_scheduled),
          .prefill_ms = MillisecondsBetween(first_scheduled, first_token),
          .decode_ms = MillisecondsBetween(first_token, times.finished),
          .preemptions = num_preemptions};
}

AnswerToken TokenOf(const Tokenizer& tokenizer, TokenId id, const TokenLogprobs* logprobs,
                    int64_t text_offset) {
  AnswerToken token = {
      .id = id, .bytes = std::string(tokenizer.TokenBytes(id)), .text_offset = text_offset};
  if (logprobs == nullptr) return token;
  token.logprob = logprobs->logprob;
  token.rank = logprobs->rank;
  token.top.reserve(logprobs->top.size());
  for (const auto& [top, logprob] : logprobs->top) {
    token.top.push_back({top, std::string(tokenizer.TokenBytes(top)), logprob});
  }
  return token;
}

std::vector<TokenId> SortedStopTokens(const StopConditions& stop) {
  std::vector<TokenId> tokens = stop.eos_token_ids;
  tokens.insert(tokens.end(), stop.stop_token_ids.begin(), stop.stop_token_ids.end());
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

}  // namespace

AnswerBuilder::AnswerBuilder(std::shared_ptr<const Tokenizer> tokenizer, const GenerationJob& job,
                             std::string request_id)
    : tokenizer_(std::move(tokenizer)),
      options_(job.output),
      request_id_(std::move(request_id)),
      num_prompt_tokens_(static_cast<int64_t>(job.request.prompt.size())),
      first_prompt_token_(job.request.prompt.front()),
      min_tokens_(job.request.stop.min_tokens),
      stop_tokens_(SortedStopTokens(job.request.stop)),
      stops_(std::make_shared<const StopStrings>(options_.stop_strings),
             options_.include_stop_in_output),
      prompt_end_(StreamDecoder::EndOf(job.request.prompt)),
      continuations_(static_cast<size_t>(job.request.sampling.n)) {
  if (options_.prompt_logprobs) {
    prompt_offsets_ = std::make_unique<PromptOffsets>(tokenizer_, job);
  }
  if (options_.return_prompt_token_ids) {
    At(0).started.prompt_token_ids = job.request.prompt;
  }
}

AnswerBuilder::~AnswerBuilder() = default;

// Made when something is known of it: those that wait take nothing.
AnswerBuilder::Continuation& AnswerBuilder::At(int32_t index) {
  CHECK_LT(index, static_cast<int32_t>(continuations_.size()));
  std::unique_ptr<Continuation>& continuation = continuations_[index];
  if (continuation == nullptr) {
    continuation = std::make_unique<Continuation>(tokenizer_, options_, stops_);
    continuation->decoder.StartAfter(prompt_end_);
    continuation->started.index = index;
    continuation->delta.index = index;
  }
  return *continuation;
}

bool AnswerBuilder::Add(SequenceEvent event, const RequestTimes* times) {
  Continuation& continuation = At(event.key.index);
  switch (event.kind) {
    case SequenceEvent::Kind::kStarted:
      AddStart(continuation, event);
      return false;
    case SequenceEvent::Kind::kPromptLogprobs:
      AddPromptLogprobs(continuation, event);
      return false;
    case SequenceEvent::Kind::kToken:
      return AddToken(continuation, event);
    case SequenceEvent::Kind::kFinished:
      AddEnd(continuation, event, *times);
      return false;
  }
  return false;
}

void AnswerBuilder::AddStart(Continuation& continuation, const SequenceEvent& event) {
  continuation.has_begun = true;
  continuation.num_cached_tokens = event.num_cached_tokens;
  continuation.started.request_id = request_id_;
  continuation.started.prompt_tokens = num_prompt_tokens_;
  continuation.started.cached_tokens = event.num_cached_tokens;
  // Prompt logprobs, the same for all, travel in the first start, which therefore waits for the
  // first token.
  const bool has_logprobs = options_.prompt_logprobs && event.key.index == 0;
  continuation.start_is_complete = !has_logprobs;
  // Nothing precedes the first token: no logprob.
  if (has_logprobs) AddPromptToken(continuation, first_prompt_token_, nullptr);
}

void AnswerBuilder::AddPromptLogprobs(Continuation& continuation, const SequenceEvent& event) {
  for (const auto& [token, logprobs] : event.prompt_logprobs) {
    AddPromptToken(continuation, token, &logprobs);
  }
}

void AnswerBuilder::AddPromptToken(Continuation& continuation, TokenId token,
                                   const TokenLogprobs* logprobs) {
  continuation.started.prompt_logprobs.push_back(
      TokenOf(*tokenizer_, token, logprobs, prompt_offsets_->Next(token)));
}

bool AnswerBuilder::IsStopToken(TokenId token) const {
  return std::binary_search(stop_tokens_.begin(), stop_tokens_.end(), token);
}

bool AnswerBuilder::AddToken(Continuation& continuation, const SequenceEvent& event) {
  if (continuation.matcher.matched().has_value()) return false;  // drawn before the engine knew
  continuation.start_is_complete = true;
  if (!options_.generates) return false;
  ++continuation.num_tokens;
  if (options_.return_token_ids) {
    continuation.delta.token_ids.push_back(event.token);
    continuation.has_delta = true;
  }
  if (options_.logprobs && event.logprobs != nullptr) {
    continuation.delta.logprobs.push_back(
        TokenOf(*tokenizer_, event.token, event.logprobs.get(), continuation.num_characters));
    continuation.has_delta = true;
  }
  AddText(continuation, event.token);
  return continuation.matcher.matched().has_value();
}

void AnswerBuilder::AddText(Continuation& continuation, TokenId token) {
  const bool may_stop = continuation.num_tokens >= min_tokens_;
  // A stop token ends the continuation; its text is shown only on request.
  if (may_stop && !options_.include_stop_in_output && IsStopToken(token)) return;
  const std::string_view decoded = continuation.decoder.Append(token);
  if (options_.logprobs) {
    continuation.num_characters += static_cast<int64_t>(CountCharacters(decoded));
  }
  const std::string_view text = continuation.matcher.Append(decoded, may_stop);
  if (text.empty()) return;
  continuation.delta.text.append(text);
  continuation.has_delta = true;
}

void AnswerBuilder::AddEnd(Continuation& continuation, const SequenceEvent& event,
                           const RequestTimes& times) {
  continuation.start_is_complete = continuation.has_begun;
  if (options_.generates) {
    std::string& text = continuation.delta.text;
    text.append(continuation.matcher.Append(continuation.decoder.Flush()));
    text.append(continuation.matcher.Flush());
    continuation.has_delta |= !text.empty();
  }
  if (event.reason == FinishReason::kError) return;  // the stream's status says why

  Finished& finished = continuation.finished;
  finished.index = event.key.index;
  if (const std::optional<size_t> matched = continuation.matcher.matched(); matched.has_value()) {
    finished.reason = FinishReason::kStop;
    finished.matched = std::string(continuation.matcher.stop_string(*matched));
  } else if (!options_.generates && event.reason == FinishReason::kStop) {
    finished.reason = FinishReason::kLength;  // the token that ended it is not shown
  } else {
    finished.reason = event.reason;
    if (options_.generates && event.matched_token >= 0) finished.matched = event.matched_token;
  }
  finished.usage = {.prompt_tokens = num_prompt_tokens_,
                    .cached_tokens = continuation.num_cached_tokens,
                    .completion_tokens = continuation.num_tokens};
  finished.timings = TimingsOf(times, event.num_preemptions);
  continuation.has_finished = true;
}

bool AnswerBuilder::HasPart() const {
  return std::any_of(continuations_.begin(), continuations_.end(), [](const auto& continuation) {
    return continuation != nullptr && continuation->has_part();
  });
}

bool AnswerBuilder::Next(AnswerPart* part) {
  for (auto& continuation : continuations_) {
    if (continuation == nullptr) continue;
    if (continuation->start_is_due()) {
      continuation->start_was_sent = true;
      *part = std::move(continuation->started);
      return true;
    }
    if (continuation->has_delta) {
      continuation->has_delta = false;
      const int32_t index = continuation->delta.index;
      *part = std::exchange(continuation->delta, Delta{.index = index});
      return true;
    }
    if (continuation->has_finished) {
      *part = std::move(continuation->finished);
      continuation.reset();  // that was the last of it
      return true;
    }
  }
  return false;
}

}  // namespace quire

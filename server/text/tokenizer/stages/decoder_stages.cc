#include "server/text/tokenizer/stages/decoder_stages.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "server/text/tokenizer/file/errors.h"
#include "server/text/tokenizer/models/byte_level.h"
#include "server/text/utf8.h"

namespace quire {
namespace {

constexpr std::string_view kReplacementText = "\uFFFD";

std::string ReplaceAll(std::string_view text, std::string_view literal, std::string_view content) {
  std::string out;
  while (true) {
    const size_t at = text.find(literal);
    out.append(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    out.append(content);
    text.remove_prefix(at + literal.size());
  }
}

// A step whose stages are made from a copy of its settings.
template <typename StageType, typename ApplyBytes, typename... Settings>
class Step final : public DecoderStep {
 public:
  explicit Step(ApplyBytes apply, Settings... settings)
      : apply_(std::move(apply)), settings_(std::move(settings)...) {}

  std::unique_ptr<DecodeStage> Stage() const override {
    return std::apply([](const auto&... s) { return std::make_unique<StageType>(s...); },
                      settings_);
  }
  void ApplyToBytes(std::string* token) const override { apply_(token); }

 private:
  const ApplyBytes apply_;
  const std::tuple<Settings...> settings_;
};

template <typename StageType, typename ApplyBytes, typename... Settings>
std::unique_ptr<DecoderStep> MakeStep(ApplyBytes apply, Settings... settings) {
  return std::make_unique<Step<StageType, ApplyBytes, Settings...>>(std::move(apply),
                                                                    std::move(settings)...);
}

void KeepBytes(std::string*) {}

class ByteLevelStage final : public DecodeStage {
 public:
  void Push(std::string_view text, bool) override {
    AppendByteLevelBytes(text, &held_);
    Release();
  }

  void Finish() override {
    if (!held_.empty()) next()->Push(kReplacementText, is_first_);
    next()->Finish();
  }

 private:
  // Passes on everything except an unfinished character at the end.
  void Release() {
    std::string out;
    size_t pos = 0;
    while (pos < held_.size()) {
      const Utf8Prefix prefix = ClassifyUtf8Prefix(std::string_view(held_).substr(pos));
      if (prefix.kind == Utf8Start::kIncomplete) break;
      const bool is_character = prefix.kind == Utf8Start::kCharacter;
      out.append(is_character ? std::string_view(held_).substr(pos, prefix.num_bytes)
                              : kReplacementText);
      pos += prefix.num_bytes;
    }
    held_.erase(0, pos);
    if (out.empty()) return;
    next()->Push(out, is_first_);
    is_first_ = false;
  }

  std::string held_;
  bool is_first_ = true;
};

class ByteFallbackStage final : public DecodeStage {
 public:
  void Push(std::string_view text, bool) override {
    const std::optional<uint8_t> byte = ParseByteToken(text);
    if (byte.has_value()) {
      held_.push_back(static_cast<char>(*byte));
      Release();
      return;
    }
    EndRun();
    next()->Push(text, true);
  }

  void Finish() override {
    EndRun();
    next()->Finish();
  }

 private:
  // Passes on the characters that are complete and the bytes that can be part of none.
  void Release() {
    while (!held_.empty()) {
      const Utf8Prefix prefix = ClassifyUtf8Prefix(held_);
      if (prefix.kind == Utf8Start::kIncomplete) return;
      if (prefix.kind == Utf8Start::kCharacter) {
        Emit(std::string_view(held_).substr(0, prefix.num_bytes));
      } else {
        for (uint32_t i = 0; i < prefix.num_bytes; ++i) Emit(kReplacementText);
      }
      held_.erase(0, prefix.num_bytes);
    }
  }

  void EndRun() {
    for (size_t i = 0; i < held_.size(); ++i) Emit(kReplacementText);
    held_.clear();
    starts_run_ = true;
  }

  void Emit(std::string_view text) {
    next()->Push(text, starts_run_);
    starts_run_ = false;
  }

  std::string held_;
  bool starts_run_ = true;
};

class FuseStage final : public DecodeStage {
 public:
  void Push(std::string_view text, bool) override {
    next()->Push(text, is_first_);
    is_first_ = false;
  }

 private:
  bool is_first_ = true;
};

class ReplaceStage final : public DecodeStage {
 public:
  ReplaceStage(std::string literal, std::string content)
      : literal_(std::move(literal)), content_(std::move(content)) {}

  void Push(std::string_view text, bool starts_token) override {
    next()->Push(ReplaceAll(text, literal_, content_), starts_token);
  }

 private:
  const std::string literal_;
  const std::string content_;
};

class StripStage final : public DecodeStage {
 public:
  StripStage(std::string content, int64_t start, int64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}

  void Push(std::string_view text, bool starts_token) override {
    if (starts_token) {
      num_to_strip_ = start_;
      num_held_ = 0;  // the token before has ended: these were its last
    }
    for (; num_to_strip_ > 0 && text.starts_with(content_); --num_to_strip_)
      text.remove_prefix(content_.size());
    if (!text.empty()) num_to_strip_ = 0;
    std::string_view body = text;
    int64_t num_trailing = 0;
    while (num_trailing < stop_ && body.ends_with(content_)) {
      body.remove_suffix(content_.size());
      ++num_trailing;
    }
    std::string out;
    const int64_t num_released =
        body.empty() ? std::max<int64_t>(0, num_held_ + num_trailing - stop_) : num_held_;
    for (int64_t i = 0; i < num_released; ++i) out += content_;
    num_held_ += num_trailing - num_released;
    out.append(body);
    next()->Push(out, starts_token);
  }

 private:
  const std::string content_;
  const int64_t start_;
  const int64_t stop_;
  int64_t num_to_strip_ = 0;  // at most, at the start of this token
  int64_t num_held_ = 0;      // of `content_` at the end of the text so far, at most stop_
};

class MetaspaceStage final : public DecodeStage {
 public:
  MetaspaceStage(std::string replacement, bool drops_first)
      : replacement_(std::move(replacement)), drops_first_(drops_first) {}

  void Push(std::string_view text, bool starts_token) override {
    if (starts_token) ++num_tokens_;
    const std::string_view blank = drops_first_ && num_tokens_ == 1 ? "" : " ";
    next()->Push(ReplaceAll(text, replacement_, blank), starts_token);
  }

 private:
  const std::string replacement_;
  const bool drops_first_;
  int64_t num_tokens_ = 0;
};

class SuffixStage final : public DecodeStage {
 public:
  explicit SuffixStage(std::string suffix) : suffix_(std::move(suffix)) {}

  void Push(std::string_view text, bool) override {
    Release(" ");
    held_ = std::string(text);
  }

  void Finish() override {
    Release("");
    next()->Finish();
  }

 private:
  void Release(std::string_view blank) {
    if (held_.has_value()) next()->Push(ReplaceAll(*held_, suffix_, blank), true);
    held_.reset();
  }

  const std::string suffix_;
  std::optional<std::string>
      held_;  // the last token, until it is known whether another one follows
};

class BlanksStage final : public DecodeStage {
 public:
  void Push(std::string_view text, bool starts_token) override {
    if (!is_first_) next()->Push(" ", true);
    next()->Push(text, starts_token);
    is_first_ = false;
  }

 private:
  bool is_first_ = true;
};

// ApplyToBytes of the steps that replace one text by another.
auto Replacing(std::string literal, std::string content) {
  return [literal = std::move(literal), content = std::move(content)](std::string* token) {
    *token = ReplaceAll(*token, literal, content);
  };
}

}  // namespace

std::unique_ptr<DecoderStep> MakeByteLevelStep() {
  return MakeStep<ByteLevelStage>([](std::string* token) {
    std::string bytes;
    AppendByteLevelBytes(*token, &bytes);
    *token = std::move(bytes);
  });
}

std::unique_ptr<DecoderStep> MakeByteFallbackStep() {
  return MakeStep<ByteFallbackStage>([](std::string* token) {
    const std::optional<uint8_t> byte = ParseByteToken(*token);
    if (byte.has_value()) token->assign(1, static_cast<char>(*byte));
  });
}

std::unique_ptr<DecoderStep> MakeFuseStep() { return MakeStep<FuseStage>(&KeepBytes); }

std::unique_ptr<DecoderStep> MakeReplaceStep(const std::string& literal,
                                             const std::string& content) {
  return MakeStep<ReplaceStage>(Replacing(literal, content), literal, content);
}

std::unique_ptr<DecoderStep> MakeStripStep(std::string content, int64_t start, int64_t stop) {
  return MakeStep<StripStage>(&KeepBytes, std::move(content), start, stop);
}

std::unique_ptr<DecoderStep> MakeMetaspaceStep(const std::string& replacement, bool drops_first) {
  return MakeStep<MetaspaceStage>(Replacing(replacement, " "), replacement, drops_first);
}

std::unique_ptr<DecoderStep> MakeSuffixStep(const std::string& suffix) {
  return MakeStep<SuffixStage>(Replacing(suffix, " "), suffix);
}

std::unique_ptr<DecoderStep> MakeBlanksStep() {
  return MakeStep<BlanksStage>([](std::string* token) { *token = Concat(" ", *token); });
}

}  // namespace quire

#include "server/text/tokenizer/stages/decoder.h"

#include <utility>

#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/text/tokenizer/file/components.h"
#include "server/text/tokenizer/file/errors.h"
#include "server/text/tokenizer/stages/decoder_stages.h"

namespace quire {
namespace {

constexpr int64_t kMaxStrip = 1024;

absl::StatusOr<std::string> GetText(const nlohmann::json& json, const char* key,
                                    std::string_view where) {
  ASSIGN_OR_RETURN(std::string text, GetString(json, key, where));
  if (text.empty()) return InvalidArgument(where, ": \"", key, "\" must not be empty");
  return text;
}

absl::StatusOr<std::unique_ptr<DecoderStep>> ParseReplace(const nlohmann::json& json) {
  ASSIGN_OR_RETURN(const PatternSpec pattern, GetPattern(json, "decoder Replace"));
  if (pattern.is_regex) {
    return absl::UnimplementedError("the decoder \"Replace\" with a Regex is not supported");
  }
  ASSIGN_OR_RETURN(const std::string content, GetString(json, "content", "decoder Replace"));
  return MakeReplaceStep(pattern.text, content);
}

absl::StatusOr<std::unique_ptr<DecoderStep>> ParseStrip(const nlohmann::json& json) {
  ASSIGN_OR_RETURN(std::string content, GetText(json, "content", "decoder Strip"));
  ASSIGN_OR_RETURN(const int64_t start, GetCount(json, "start", kMaxStrip, "decoder Strip"));
  ASSIGN_OR_RETURN(const int64_t stop, GetCount(json, "stop", kMaxStrip, "decoder Strip"));
  return MakeStripStep(std::move(content), start, stop);
}

absl::StatusOr<std::unique_ptr<DecoderStep>> ParseMetaspace(const nlohmann::json& json) {
  constexpr char kWhere[] = "decoder Metaspace";
  ASSIGN_OR_RETURN(const std::string replacement, GetText(json, "replacement", kWhere));
  ASSIGN_OR_RETURN(bool drops_first, GetBool(json, "add_prefix_space", true, kWhere));
  if (json.contains("prepend_scheme")) {
    ASSIGN_OR_RETURN(const std::string scheme, GetString(json, "prepend_scheme", kWhere));
    drops_first = drops_first && scheme != "never";
  }
  return MakeMetaspaceStep(replacement, drops_first);
}

absl::StatusOr<std::unique_ptr<DecoderStep>> ParseStep(const std::string& type,
                                                       const nlohmann::json& json) {
  if (type == "ByteLevel") return MakeByteLevelStep();
  if (type == "ByteFallback") return MakeByteFallbackStep();
  if (type == "Fuse") return MakeFuseStep();
  if (type == "Replace") return ParseReplace(json);
  if (type == "Strip") return ParseStrip(json);
  if (type == "Metaspace") return ParseMetaspace(json);
  if (type == "BPEDecoder") {
    ASSIGN_OR_RETURN(const std::string suffix, GetText(json, "suffix", "decoder BPEDecoder"));
    return MakeSuffixStep(suffix);
  }
  return Unimplemented("the decoder \"", type, "\" is not supported");
}

}  // namespace

// The end of a chain: appends to the string of the call.
class DecodeChain::Output final : public DecodeStage {
 public:
  void Push(std::string_view text, bool) override { out->append(text); }
  void Finish() override {}

  std::string* out = nullptr;
};

DecodeChain::DecodeChain(const TokenDecoder& decoder) {
  for (const std::unique_ptr<DecoderStep>& step : decoder.steps_) stages_.push_back(step->Stage());
  auto output = std::make_unique<Output>();
  output_ = output.get();
  stages_.push_back(std::move(output));
  for (size_t i = 0; i + 1 < stages_.size(); ++i) stages_[i]->next_ = stages_[i + 1].get();
}

void DecodeChain::Push(std::string_view token, std::string* out) {
  output_->out = out;
  stages_.front()->Push(token, true);
}

void DecodeChain::Finish(std::string* out) {
  output_->out = out;
  stages_.front()->Finish();
}

absl::StatusOr<TokenDecoder> TokenDecoder::Parse(const nlohmann::json& json) {
  TokenDecoder decoder;
  RETURN_IF_ERROR(VisitComponents(json, "decoders", "decoder",
                                  [&](const std::string& type, const nlohmann::json& component) {
                                    return decoder.AddStep(type, component);
                                  }));
  if (json.is_null()) decoder.steps_.push_back(MakeBlanksStep());
  return decoder;
}

absl::Status TokenDecoder::AddStep(const std::string& type, const nlohmann::json& json) {
  // Strip and Metaspace look at the ends of a token only; the others must see it whole.
  const bool takes_parts = type == "Fuse" || type == "Strip" || type == "Metaspace";
  if (tokens_are_joined_ && !takes_parts) {
    return Unimplemented("the decoder \"", type, "\" after one that joins tokens is not supported");
  }
  ASSIGN_OR_RETURN(std::unique_ptr<DecoderStep> step, ParseStep(type, json));
  steps_.push_back(std::move(step));
  tokens_are_joined_ =
      tokens_are_joined_ || type == "Fuse" || type == "ByteLevel" || type == "ByteFallback";
  return absl::OkStatus();
}

std::string TokenDecoder::TokenBytes(std::string_view token) const {
  std::string bytes(token);
  for (const std::unique_ptr<DecoderStep>& step : steps_) step->ApplyToBytes(&bytes);
  return bytes;
}

}  // namespace quire

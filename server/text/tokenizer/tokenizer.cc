#include "server/text/tokenizer/tokenizer.h"

#include <utility>

#include "absl/status/status.h"
#include "kernels/base/status_macros.h"
#include "server/text/tokenizer/file/errors.h"
#include "server/text/utf8.h"

namespace quire {
namespace {

constexpr size_t kMaxIdleScratch = 16;  // about a megabyte each
constexpr size_t kBytesPerStep = 8;     // of Fuel
constexpr size_t kBytesPerBurn = 512;

absl::Status CheckText(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return InvalidArgument("the text has ", text.size(), " bytes; at most ", kMaxTextBytes,
                           " are supported");
  }
  if (const std::optional<size_t> offset = FindInvalidUtf8(text)) {
    return InvalidArgument("the text is not valid UTF-8 at byte ", *offset);
  }
  return absl::OkStatus();
}

}  // namespace

// Working memory of one Encode call, from the pool and back to it.
class Tokenizer::BorrowedScratch {
 public:
  BorrowedScratch(const Tokenizer& tokenizer, Fuel* fuel) : tokenizer_(tokenizer) {
    {
      absl::MutexLock lock(&tokenizer_.mutex_);
      if (!tokenizer_.idle_scratch_.empty()) {
        scratch_ = std::move(tokenizer_.idle_scratch_.back());
        tokenizer_.idle_scratch_.pop_back();
      }
    }
    if (scratch_ == nullptr) scratch_ = std::make_unique<Scratch>();
    scratch_->model.fuel = fuel;
  }

  ~BorrowedScratch() {
    scratch_->model.Trim();
    scratch_->model.fuel = nullptr;
    absl::MutexLock lock(&tokenizer_.mutex_);
    if (tokenizer_.idle_scratch_.size() < kMaxIdleScratch) {
      tokenizer_.idle_scratch_.push_back(std::move(scratch_));
    }
  }

  BorrowedScratch(const BorrowedScratch&) = delete;
  BorrowedScratch& operator=(const BorrowedScratch&) = delete;

  Scratch* get() { return scratch_.get(); }

 private:
  const Tokenizer& tokenizer_;
  std::unique_ptr<Scratch> scratch_;
};

absl::StatusOr<std::vector<TokenId>> Tokenizer::Encode(std::string_view text,
                                                       EncodeOptions options) const {
  const ByteRange everything = {0, text.size()};
  const size_t num_ranges = options.parse_special_tokens ? 1 : 0;
  return EncodeJoined(text, absl::MakeConstSpan(&everything, num_ranges),
                      options.add_special_tokens, options.fuel);
}

absl::StatusOr<std::vector<TokenId>> Tokenizer::EncodeSegments(absl::Span<const Segment> segments,
                                                               bool add_special_tokens,
                                                               Fuel* fuel) const {
  std::string joined;
  std::vector<ByteRange> template_ranges;
  for (const Segment& segment : segments) {
    const size_t begin = joined.size();
    joined.append(segment.text);
    if (!segment.is_template || segment.text.empty()) continue;
    if (!template_ranges.empty() && template_ranges.back().end == begin) {
      template_ranges.back().end = joined.size();
    } else {
      template_ranges.push_back({begin, joined.size()});
    }
  }
  return EncodeJoined(joined, template_ranges, add_special_tokens, fuel);
}

absl::StatusOr<std::vector<TokenId>> Tokenizer::EncodeJoined(
    std::string_view text, absl::Span<const ByteRange> special_ranges, bool add_special_tokens,
    Fuel* fuel) const {
  RETURN_IF_ERROR(CheckText(text));
  BorrowedScratch scratch(*this, fuel);
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 3 + 8);
  if (add_special_tokens) ids = post_processor_.prefix;
  RETURN_IF_ERROR(added_.raw().Split(text, special_ranges, [&](const AddedSpan& span) {
    if (span.id == kNoToken) {
      return EncodeText(std::string(text.substr(span.begin, span.end - span.begin)),
                        /*at_start=*/span.begin == 0, scratch.get(), &ids);
    }
    ids.push_back(span.id);
    return absl::OkStatus();
  }));
  if (add_special_tokens)
    ids.insert(ids.end(), post_processor_.suffix.begin(), post_processor_.suffix.end());
  return ids;
}

// Normalises `text`, a stretch without special tokens, and cuts out the added tokens that are left.
absl::Status Tokenizer::EncodeText(std::string text, bool at_start, Scratch* scratch,
                                   std::vector<TokenId>* ids) const {
  RETURN_IF_ERROR(Burn(text.size(), scratch));
  RETURN_IF_ERROR(normalizer_.Apply(&text, &scratch->regex));
  if (added_.normalized().empty()) return EncodePieces(text, at_start, scratch, ids);
  return added_.normalized().Split(text, /*special_ranges=*/{}, [&](const AddedSpan& span) {
    if (span.id == kNoToken) {
      return EncodePieces(std::string_view(text).substr(span.begin, span.end - span.begin),
                          at_start && span.begin == 0, scratch, ids);
    }
    ids->push_back(span.id);
    return absl::OkStatus();
  });
}

absl::Status Tokenizer::EncodePieces(std::string_view text, bool at_start, Scratch* scratch,
                                     std::vector<TokenId>* ids) const {
  return pre_tokenizer_.Apply({text, at_start}, &scratch->regex, [&](const Piece& piece) {
    scratch->num_bytes += piece.text.size();
    if (scratch->num_bytes >= kBytesPerBurn) {
      RETURN_IF_ERROR(Burn(std::exchange(scratch->num_bytes, 0), scratch));
    }
    model_->Encode(piece.text, &scratch->model, ids);
    return scratch->model.gave_up() ? scratch->model.fuel->status() : absl::OkStatus();
  });
}

// Takes the fuel for looking at this many bytes.
absl::Status Tokenizer::Burn(size_t num_bytes, Scratch* scratch) {
  return scratch->model.Burn(num_bytes / kBytesPerStep) ? absl::OkStatus()
                                                        : scratch->model.fuel->status();
}

std::string Tokenizer::Decode(absl::Span<const TokenId> ids, bool skip_special_tokens) const {
  DecodeChain chain(decoder_);
  std::string text;
  for (const TokenId id : ids) {
    const std::string_view token = TextToDecode(id, skip_special_tokens);
    if (!token.empty()) chain.Push(token, &text);
  }
  chain.Finish(&text);
  return text;
}

std::string_view Tokenizer::TextToDecode(TokenId id, bool skip_special_tokens) const {
  if (skip_special_tokens && IsSpecial(id)) return {};
  const auto form = added_.decoded_forms().find(id);
  return form == added_.decoded_forms().end() ? IdToToken(id) : form->second;
}

std::optional<TokenId> Tokenizer::TokenToId(std::string_view token) const {
  const TokenId id = vocabulary_.Find(token);
  return id == kNoToken ? std::nullopt : std::optional<TokenId>(id);
}

}  // namespace quire

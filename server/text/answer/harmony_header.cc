#include "server/text/answer/harmony_header.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/text/answer/call_reader.h"

namespace quire {

namespace {

constexpr size_t kMaxHeaderBytes = 512;
constexpr std::string_view kRole = "assistant";
constexpr std::string_view kTo = "to=";

}  // namespace

HarmonyHeader::State HarmonyHeader::Take(char c) {
  const bool in_tag = !part_.empty() && part_.front() == '<';
  const bool is_space = IsJsonSpace(c);
  if (!in_tag && (is_space || c == '<')) EndWord();
  raw_.push_back(c);
  if (in_tag || !is_space) part_.push_back(c);
  if (raw_.size() > kMaxHeaderBytes) return EndAsText();
  if (part_.empty()) return num_types_ > 1 ? EndAsText() : State::kReading;
  if (part_.front() == '<') return TakeTag();
  return MayBeWord() ? State::kReading : EndAsText();
}

// Only a role and a recipient stand before the channel. An object is no part of a header.
bool HarmonyHeader::MayBeWord() const {
  if (part_.front() == '{') return false;
  if (awaits_channel_ || !channel_.empty()) return num_types_ < 2;
  return kTo.starts_with(part_) || part_.starts_with(kTo) || (has_tag_ && kRole.starts_with(part_));
}

HarmonyHeader::State HarmonyHeader::TakeTag() {
  const auto* const tag = std::find(std::begin(harmony::kTags), std::end(harmony::kTags), part_);
  if (tag == std::end(harmony::kTags)) {
    const bool may_be_tag =
        std::any_of(std::begin(harmony::kTags), std::end(harmony::kTags),
                    [this](std::string_view one) { return one.starts_with(part_); });
    return may_be_tag ? State::kReading : EndAsText();
  }
  part_.clear();
  has_tag_ = true;
  if (*tag == harmony::kMessage) return State::kMessage;
  if (*tag == harmony::kConstrain) {
    has_type_tag_ = true;
  } else if (*tag == harmony::kChannel) {
    awaits_channel_ = true;
    channel_.clear();
    num_types_ = 0;
  } else if (*tag != harmony::kStart) {
    return State::kEmpty;
  }
  return State::kReading;
}

void HarmonyHeader::EndWord() {
  const std::string word = std::exchange(part_, {});
  if (word.empty() || word == kRole) return;
  if (word.starts_with(kTo)) {
    recipient_ = word.substr(kTo.size());
  } else if (word.starts_with(harmony::kFunctions)) {
    recipient_ = word;
  } else if (awaits_channel_) {
    channel_ = word;
    awaits_channel_ = false;
  } else if (num_types_++ == 0) {
    types_begin_ = raw_.size() - word.size();
  }
}

HarmonyHeader::State HarmonyHeader::EndAsText() {
  const bool are_arguments = !recipient_.empty() && part_.starts_with('{');
  size_t begin = num_types_ == 0 || are_arguments ? raw_.size() - part_.size() : types_begin_;
  if (channel_.empty() && recipient_.empty()) begin = 0;
  rest_ = raw_.substr(begin);
  return State::kText;
}

void HarmonyHeader::Finish() {
  const bool is_to = part_.starts_with(kTo) || !recipient_.empty();
  if (!has_tag_ && !is_to) {
    rest_ = raw_;
    return;
  }
  if (part_.starts_with('<') || kTo.starts_with(part_)) part_.clear();
  EndWord();
  if (num_types_ > 0 && !has_type_tag_ && recipient_.empty()) rest_ = raw_.substr(types_begin_);
}

}  // namespace quire

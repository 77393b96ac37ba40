#include "engine/runner/shared_prefix.h"

#include <algorithm>
#include <tuple>

namespace quire {

namespace {

constexpr int32_t kStepTokens = 128;

// Sequences [begin, end) of the sharers, which have one prefix.
struct Run {
  size_t begin, end;
  int64_t num_saved_blocks;
};

}  // namespace

const PrefixOrder& SharedPrefixFinder::Find(absl::Span<const ScheduledSequence> decodes) {
  order_.sequences.clear();
  order_.groups.clear();
  FindSharers(decodes);
  MakeGroups();
  return order_;
}

int32_t& SharedPrefixFinder::CountOf(BlockId block) {
  const auto index = static_cast<size_t>(block);
  if (index >= counts_.size()) counts_.resize(index + 1);
  return counts_[index];
}

// Prefixes grow by kStepTokens as long as enough sequences have the same last block: where that is
// the same, so is everything before.
void SharedPrefixFinder::FindSharers(absl::Span<const ScheduledSequence> decodes) {
  sharers_.clear();
  std::vector<int32_t> candidates;
  for (int32_t i = 0; i < static_cast<int32_t>(decodes.size()); ++i) {
    sharers_.push_back({i, kNoBlock, 0});
    candidates.push_back(i);
  }
  const int32_t step = kStepTokens / block_size_;
  for (int32_t num_blocks = step; !candidates.empty(); num_blocks += step) {
    const auto last_block = [&](int32_t i) { return decodes[i].block_tables[0][num_blocks - 1]; };
    std::erase_if(candidates, [&](int32_t i) {
      return decodes[i].start < int64_t{num_blocks} * block_size_ || last_block(i) == kNoBlock;
    });
    for (const int32_t i : candidates) ++CountOf(last_block(i));
    const std::vector<int32_t> counted = candidates;
    std::erase_if(candidates, [&](int32_t i) { return CountOf(last_block(i)) < kMinSequences; });
    for (const int32_t i : candidates) sharers_[i] = {i, last_block(i), num_blocks};
    for (const int32_t i : counted) CountOf(last_block(i)) = 0;
  }
}

void SharedPrefixFinder::MakeGroups() {
  std::stable_sort(sharers_.begin(), sharers_.end(), [](const Sharer& a, const Sharer& b) {
    return std::tuple(-a.num_blocks, a.block) < std::tuple(-b.num_blocks, b.block);
  });
  std::vector<Run> runs;
  for (size_t begin = 0; begin < sharers_.size() && sharers_[begin].num_blocks > 0;) {
    size_t end = begin + 1;
    while (end < sharers_.size() && sharers_[end].block == sharers_[begin].block) ++end;
    const auto num_seqs = static_cast<int64_t>(end - begin);
    if (num_seqs >= kMinSequences) {
      runs.push_back({begin, end, (num_seqs - 1) * sharers_[begin].num_blocks});
    }
    begin = end;
  }
  std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) {
    return a.num_saved_blocks > b.num_saved_blocks;
  });
  if (runs.size() > kMaxGroups) runs.resize(kMaxGroups);
  int64_t num_saved_blocks = 0;
  for (const Run& run : runs) num_saved_blocks += run.num_saved_blocks;
  if (runs.empty() || num_saved_blocks * block_size_ < min_saved_tokens_) return;

  std::vector<bool> is_grouped(sharers_.size());
  for (const Run& run : runs) {
    order_.groups.push_back(
        {static_cast<int32_t>(run.end - run.begin), sharers_[run.begin].num_blocks});
    for (size_t i = run.begin; i < run.end; ++i) {
      order_.sequences.push_back(sharers_[i].sequence);
      is_grouped[sharers_[i].sequence] = true;
    }
  }
  for (int32_t i = 0; i < static_cast<int32_t>(is_grouped.size()); ++i) {
    if (!is_grouped[i]) order_.sequences.push_back(i);
  }
}

}  // namespace quire

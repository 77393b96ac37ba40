#include "engine/runner/batch_builder.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels/base/check.h"

namespace quire {

namespace {

int64_t NumScored(const ScheduledSequence& sequence) {
  if (!sequence.wants_prompt_logprobs) return 0;
  const int64_t end = std::min(sequence.start + sequence.num_new, sequence.num_prompt_tokens - 1);
  return std::max<int64_t>(0, end - sequence.start);
}

bool BansEndTokens(const ScheduledSequence& sequence) {
  return sequence.num_generated < sequence.request->stop.min_tokens;
}

int64_t NumBias(const ScheduledSequence& sequence) {
  const auto num_biases = static_cast<int64_t>(sequence.request->sampling.logit_bias.size());
  if (!BansEndTokens(sequence)) return num_biases;
  const StopConditions& stop = sequence.request->stop;
  return num_biases + static_cast<int64_t>(stop.eos_token_ids.size() + stop.stop_token_ids.size());
}

// Appends the logit biases of one sampling row: the client's, and a ban of every end token while
// fewer than min_tokens tokens have been generated. Returns how many.
int16_t AppendBias(const ScheduledSequence& sequence, int32_t begin, const BatchArrays& arrays) {
  const SamplingParams& sampling = sequence.request->sampling;
  const StopConditions& stop = sequence.request->stop;
  int32_t end = begin;
  auto append = [&](TokenId token, float bias) { arrays.bias[end++] = {token, bias}; };
  for (const auto& [token, bias] : sampling.logit_bias) append(token, bias);
  if (BansEndTokens(sequence)) {
    constexpr float kBan = -std::numeric_limits<float>::infinity();
    for (const TokenId token : stop.eos_token_ids) append(token, kBan);
    for (const TokenId token : stop.stop_token_ids) append(token, kBan);
  }
  return static_cast<int16_t>(end - begin);
}

SamplingRow MakeSamplingRow(const ScheduledSequence& sequence) {
  const SamplingParams& params = sequence.request->sampling;
  SamplingRow row;
  row.row = sequence.row;
  row.temperature = params.temperature;
  row.top_k = params.top_k;
  row.top_p = params.top_p;
  row.min_p = params.min_p;
  row.repetition_penalty = params.repetition_penalty;
  row.presence_penalty = params.presence_penalty;
  row.frequency_penalty = params.frequency_penalty;
  row.num_logprobs = static_cast<int16_t>(params.logprobs);
  row.seed = ContinuationSeed(params.seed, sequence.key.index);
  row.position = sequence.num_generated;
  return row;
}

// Appends the rows that score prompt tokens, after all sampling rows. Row j of a sequence scores
// the token that follows position start + j. Only decodes are reordered, and they score no tokens.
void AddScoredRows(const SchedulerOutput& output, const BatchArrays& arrays, BatchMetadata* batch) {
  int32_t row = batch->num_sampled_rows;
  for (int32_t i = 0; i < batch->num_seqs; ++i) {
    const ScheduledSequence& sequence = output.sequences[i];
    const auto num_scored = static_cast<int32_t>(NumScored(sequence));
    for (int32_t j = 0; j < num_scored; ++j) {
      SamplingRow scored;
      scored.target = sequence.tokens[sequence.start + j + 1];
      scored.num_logprobs = static_cast<int16_t>(sequence.request->sampling.prompt_logprobs);
      arrays.logits_indices[row + j] = arrays.cu_seqlens_q[i] + j;
      arrays.sampling[row + j] = scored;
    }
    batch->logit_rows[i].first_scored = row;
    batch->logit_rows[i].num_scored = num_scored;
    batch->any_logprobs |= num_scored > 0;
    row += num_scored;
  }
  batch->num_logit_rows = row;
}

// Those that decode come first.
absl::Span<const ScheduledSequence> DecodesOf(const SchedulerOutput& output) {
  const absl::Span<const ScheduledSequence> all = output.sequences;
  const auto is_decode = [](const ScheduledSequence& sequence) {
    return sequence.num_new == 1 && NumScored(sequence) == 0;
  };
  return all.first(std::find_if_not(all.begin(), all.end(), is_decode) - all.begin());
}

}  // namespace

uint64_t ContinuationSeed(uint64_t request_seed, int32_t index) {
  if (index == 0) return request_seed;
  // Finalizer of SplitMix64 (Steele, Lea, Flood 2014).
  uint64_t z = request_seed + static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

BatchBuilder::BatchBuilder(const BatchLimits& limits, std::vector<UniformSize> uniform_sizes)
    : limits_(limits),
      uniform_sizes_(std::move(uniform_sizes)),
      prefix_finder_(limits.block_size, limits.min_prefix_tokens) {}

BatchShape BatchBuilder::ShapeOf(const SchedulerOutput& output, bool shares_prefixes) const {
  BatchShape shape = {.num_seqs = static_cast<int64_t>(output.sequences.size()),
                      .num_tokens = output.num_tokens,
                      .num_groups = limits_.num_groups};
  if (limits_.snapshot_grid > 0) shape.num_states = shape.num_seqs;
  for (const ScheduledSequence& sequence : output.sequences) {
    shape.num_snapshots += static_cast<int64_t>(sequence.snapshots.size());
    shape.num_logit_rows += sequence.num_samples + NumScored(sequence);
    if (sequence.num_samples > 0) {
      const int64_t num_bias = NumBias(sequence);
      CHECK_LE(num_bias, limits_.max_bias_per_seq);
      shape.num_bias += num_bias;
    }
    for (const absl::Span<const BlockId> blocks : sequence.block_tables) {
      shape.num_block_updates += static_cast<int64_t>(blocks.size()) - sequence.first_new_block;
    }
  }
  shape.num_block_updates = std::min(shape.num_block_updates, limits_.max_block_updates);
  shape.num_prefix_groups = shares_prefixes ? kNumPrefixGroups : 0;
  CHECK_LE(shape.num_seqs, limits_.max_num_seqs);
  CHECK_LE(shape.num_tokens, limits_.max_num_batched_tokens);
  return shape;
}

// Which size the step is padded to; -1 if it is not uniform, of a query length that has no sizes,
// or in need of more room than such a step has.
int BatchBuilder::UniformSizeFor(const SchedulerOutput& output, const BatchShape& shape) const {
  const int64_t query_len = output.empty() ? 1 : output.sequences.front().num_new;
  for (const ScheduledSequence& sequence : output.sequences) {
    if (sequence.num_new != query_len) return -1;
    if (sequence.num_samples != 1 || NumScored(sequence) != 0) return -1;
  }
  const UniformSize least = {static_cast<int32_t>(query_len), static_cast<int32_t>(shape.num_seqs),
                             shape.num_prefix_groups > 0};
  const auto size = std::lower_bound(uniform_sizes_.begin(), uniform_sizes_.end(), least);
  if (size == uniform_sizes_.end() || size->query_len != query_len ||
      size->shares_prefixes != least.shares_prefixes) {
    return -1;
  }
  if (shape.num_block_updates > UniformShape(limits_, *size).num_block_updates) return -1;
  return static_cast<int>(size - uniform_sizes_.begin());
}

void BatchBuilder::AddTokens(const ScheduledSequence& sequence, const BatchArrays& arrays,
                             const BatchMetadata& batch) const {
  const int64_t first = batch.num_tokens;
  if (sequence.input_on_device) {
    DCHECK(sequence.num_new == 1);
    arrays.input_ids[first] = ~sequence.row;
  } else {
    std::copy_n(sequence.tokens.data() + sequence.start, sequence.num_new,
                arrays.input_ids + first);
  }
  std::iota(arrays.positions + first, arrays.positions + first + sequence.num_new, sequence.start);
  for (int group = 0; group < limits_.num_groups; ++group) {
    const absl::Span<const BlockId> blocks = sequence.block_tables[group];
    int64_t* slots = arrays.slot_mapping + group * batch.shape.num_tokens + first;
    int64_t index = sequence.start / limits_.block_size;  // of the block
    int64_t offset = sequence.start % limits_.block_size;
    for (int64_t i = 0; i < sequence.num_new; ++i) {
      DCHECK(blocks[index] != kNoBlock);
      slots[i] = int64_t{blocks[index]} * limits_.block_size + offset;
      if (++offset < limits_.block_size) continue;
      offset = 0;
      ++index;
    }
  }
}

void BatchBuilder::AddBlockUpdates(const ScheduledSequence& sequence, const BatchArrays& arrays,
                                   SendUpdates send_updates, BatchMetadata* batch) const {
  for (int group = 0; group < limits_.num_groups; ++group) {
    const absl::Span<const BlockId> blocks = sequence.block_tables[group];
    CHECK_LE(static_cast<int64_t>(blocks.size()), limits_.max_blocks_per_seq);
    for (size_t i = sequence.first_new_block; i < blocks.size(); ++i) {
      if (batch->num_block_updates == batch->shape.num_block_updates) {
        send_updates({arrays.block_updates, static_cast<size_t>(batch->num_block_updates)});
        batch->num_block_updates = 0;
      }
      arrays.block_updates[batch->num_block_updates++] = {group, sequence.row,
                                                          static_cast<int32_t>(i), blocks[i]};
    }
  }
}

void BatchBuilder::AddState(const ScheduledSequence& sequence, const BatchArrays& arrays,
                            BatchMetadata* batch) const {
  CHECK_GE(sequence.state_out, 0);
  arrays.states[batch->num_seqs] = {
      .read = sequence.state_in,
      .write = sequence.state_out,
      .first_snapshot = batch->num_snapshots,
      .num_snapshots = static_cast<int32_t>(sequence.snapshots.size())};
  for (const StateSnapshot& snapshot : sequence.snapshots) {
    arrays.snapshots[batch->num_snapshots++] = snapshot;
  }
}

void BatchBuilder::Pad(const BatchMetadata& batch, const BatchArrays& arrays) const {
  const int32_t query_len = uniform_sizes_[batch.uniform_size].query_len;
  const auto num_seqs = static_cast<int32_t>(batch.shape.num_seqs);
  const auto num_tokens = static_cast<int32_t>(batch.shape.num_tokens);
  for (int32_t i = batch.num_seqs; i < num_seqs; ++i) {
    arrays.seq_rows[i] = 0;
    arrays.seq_lens[i] = 0;
    // A decode has one query token, padding too; elsewhere padding has none.
    arrays.cu_seqlens_q[i + 1] = query_len == 1 ? i + 1 : batch.num_tokens;
    arrays.logits_indices[i] = i * query_len;
    arrays.sampling[i] = SamplingRow();
    if (batch.shape.num_prefix_groups > 0) arrays.first_blocks[i] = arrays.rest_lens[i] = 0;
    if (batch.shape.num_states > 0) arrays.states[i] = {.read = kNoState, .write = kNoState};
  }
  for (int32_t i = batch.num_tokens; i < num_tokens; ++i) {
    arrays.input_ids[i] = 0;
    arrays.positions[i] = 0;
    for (int group = 0; group < limits_.num_groups; ++group) {
      arrays.slot_mapping[group * num_tokens + i] = -1;
    }
  }
  for (int64_t i = batch.num_block_updates; i < batch.shape.num_block_updates; ++i) {
    arrays.block_updates[i] = {.group = 0, .row = 0, .index = -1, .block = kNoBlock};
  }
}

// The group behind the last, of no prefix, has all other decodes; those behind it have none.
void BatchBuilder::AddPrefixes(const PrefixOrder& prefixes, const BatchMetadata& batch,
                               const BatchArrays& arrays) const {
  const auto num_decodes = static_cast<int32_t>(
      batch.uniform_size >= 0 ? batch.shape.num_seqs : int64_t{batch.num_decodes});
  for (int32_t i = 0; i < batch.num_decodes; ++i) {
    arrays.first_blocks[i] = 0;
    arrays.rest_lens[i] = arrays.seq_lens[i];
  }
  int32_t end = 0;
  arrays.prefix_cu_seqlens_q[0] = 0;
  for (size_t g = 0; g < static_cast<size_t>(batch.shape.num_prefix_groups); ++g) {
    const PrefixGroup group = g < prefixes.groups.size() ? prefixes.groups[g] : PrefixGroup{};
    const int32_t prefix_len = group.num_blocks * limits_.block_size;
    arrays.prefix_lens[g] = prefix_len;
    arrays.prefix_rows[g] = group.num_seqs > 0 ? arrays.seq_rows[end] : 0;
    for (const int32_t first = end; end < first + group.num_seqs; ++end) {
      arrays.first_blocks[end] = group.num_blocks;
      arrays.rest_lens[end] -= prefix_len;
    }
    if (g >= prefixes.groups.size()) end = num_decodes;
    arrays.prefix_cu_seqlens_q[g + 1] = end;
  }
}

void BatchBuilder::AddSequence(const ScheduledSequence& sequence, const BatchArrays& arrays,
                               SendUpdates send_updates, BatchMetadata* batch,
                               LogitRows* rows) const {
  CHECK_GE(sequence.num_new, 1);
  const auto num_new = static_cast<int32_t>(sequence.num_new);
  const int32_t i = batch->num_seqs;
  arrays.seq_rows[i] = sequence.row;
  arrays.seq_lens[i] = static_cast<int32_t>(sequence.start) + num_new;
  arrays.cu_seqlens_q[i + 1] = arrays.cu_seqlens_q[i] + num_new;
  if (num_new == 1 && batch->num_decodes == i) ++batch->num_decodes;
  AddTokens(sequence, arrays, *batch);
  AddBlockUpdates(sequence, arrays, send_updates, batch);
  if (batch->shape.num_states > 0) AddState(sequence, arrays, batch);
  batch->num_tokens += num_new;
  ++batch->num_seqs;
  if (sequence.num_samples == 0) return;
  SamplingRow row = MakeSamplingRow(sequence);
  row.bias_begin =
      batch->num_sampled_rows > 0 ? BiasEnd(arrays.sampling[batch->num_sampled_rows - 1]) : 0;
  row.num_bias = AppendBias(sequence, row.bias_begin, arrays);
  batch->any_logprobs |= row.num_logprobs >= 0;
  if (sequence.constraint != nullptr) {
    row.mask = static_cast<int32_t>(batch->constraints.size());
    batch->constraints.push_back(sequence.constraint);
  }
  rows->sampled = batch->num_sampled_rows;
  arrays.logits_indices[batch->num_sampled_rows] = batch->num_tokens - 1;
  arrays.sampling[batch->num_sampled_rows++] = row;
}

BatchMetadata BatchBuilder::Build(const SchedulerOutput& output, void* buffer,
                                  SendUpdates send_updates) {
  const PrefixOrder none;
  const PrefixOrder& prefixes =
      limits_.min_prefix_tokens > 0 ? prefix_finder_.Find(DecodesOf(output)) : none;
  BatchMetadata batch;
  batch.shape = ShapeOf(output, !prefixes.groups.empty());
  batch.uniform_size = UniformSizeFor(output, batch.shape);
  if (batch.uniform_size >= 0) {
    const int64_t num_bias = batch.shape.num_bias;
    batch.shape = UniformShape(limits_, uniform_sizes_[batch.uniform_size]);
    batch.shape.num_bias = num_bias;
  }
  const BatchArrays arrays = BatchLayout(batch.shape).At(buffer);
  batch.logit_rows.resize(output.sequences.size());
  arrays.cu_seqlens_q[0] = 0;
  for (size_t place = 0; place < output.sequences.size(); ++place) {
    const size_t i = place < prefixes.sequences.size() ? prefixes.sequences[place] : place;
    AddSequence(output.sequences[i], arrays, send_updates, &batch, &batch.logit_rows[i]);
  }
  CHECK_EQ(batch.num_tokens, output.num_tokens);
  AddScoredRows(output, arrays, &batch);
  if (batch.shape.num_prefix_groups > 0) AddPrefixes(prefixes, batch, arrays);
  if (batch.uniform_size >= 0) Pad(batch, arrays);
  return batch;
}

BatchMetadata BatchBuilder::BuildPadding(int index, void* buffer) const {
  BatchMetadata batch;
  batch.shape = UniformShape(limits_, uniform_sizes_[index]);
  batch.uniform_size = index;
  const BatchArrays arrays = BatchLayout(batch.shape).At(buffer);
  arrays.cu_seqlens_q[0] = 0;
  if (batch.shape.num_prefix_groups > 0) AddPrefixes({}, batch, arrays);
  Pad(batch, arrays);
  return batch;
}

}  // namespace quire

#include "tests/sim/fake_runner.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/sampling_row.h"

namespace quire::sim {
namespace {

constexpr uint64_t kRubbish = 0xdeadbeef;  // no fingerprint

std::string Name(const SequenceKey& key) { return absl::StrCat(key.request, "/", key.index); }

}  // namespace

FakeRunner::FakeRunner(const SchedulerConfig& config, const BlockManagerConfig& blocks,
                       Lookup lookup, Fail fail)
    : config_(config),
      blocks_(blocks),
      lookup_(std::move(lookup)),
      fail_(std::move(fail)),
      slots_(blocks.num_blocks * blocks.block_size, 0),
      full_tag_(blocks.num_blocks, 0),
      states_(blocks.num_state_slots, kRubbish),
      is_snapshot_(blocks.num_state_slots, false),
      row_last_token_(config.max_num_seqs, -1),
      row_key_(config.max_num_seqs),
      row_epoch_(config.max_num_seqs, 0),
      row_next_start_(config.max_num_seqs, -1),
      row_state_(config.max_num_seqs, kNoState) {
  const int64_t max_blocks = CeilDiv<int64_t>(config.max_model_len, blocks.block_size);
  tables_.assign(blocks.groups.size(),
                 std::vector<std::vector<BlockId>>(config.max_num_seqs,
                                                   std::vector<BlockId>(max_blocks, kNoBlock)));
}

void FakeRunner::PlantFault(Fault fault, int64_t countdown) {
  fault_ = fault;
  fault_countdown_ = countdown;
}

bool FakeRunner::FaultIsDue(Fault fault) {
  if (fault != fault_ || --fault_countdown_ > 0) return false;
  const bool is_lasting = fault == Fault::kSnapshotLate || fault == Fault::kLostSnapshot;
  if (!is_lasting) fault_ = Fault::kNone;
  return true;
}

bool FakeRunner::Item::Writes(StateSlot slot) const {
  return slot == state_out || std::any_of(snapshots.begin(), snapshots.end(),
                                          [&](const auto& s) { return s.slot == slot; });
}

bool FakeRunner::IsInFlight(const SequenceKey& key) const {
  for (const Step& step : steps_) {
    for (const Item& item : step.items) {
      if (item.key == key) return true;
    }
  }
  return false;
}

void FakeRunner::Submit(const SchedulerOutput& output) {
  CheckContract(output);
  Step step{.number = output.step, .items = {}, .has_run = false, .result = {}};
  for (const ScheduledSequence& scheduled : output.sequences) {
    CheckStates(scheduled);
    CheckSequence(scheduled);
    step.items.push_back(Stage(scheduled));
    CheckReuse(step.items.back());
    for (size_t i = 0; i + 1 < step.items.size(); ++i) {
      CheckStateReuse(step.items.back(), step.items[i]);
    }
  }
  steps_.push_back(std::move(step));
}

void FakeRunner::Sample(bool run_now) {
  for (Item& item : steps_.back().items) {
    if (item.constraint == nullptr) continue;
    item.mask.assign(MaskWords(kVocabSize), 0);
    item.constraint->FillMask(absl::MakeSpan(item.mask));
    if (FaultIsDue(Fault::kLostMask)) item.mask.clear();
  }
  if (!run_now) return;
  for (Step& waiting : steps_) Run(&waiting);
}

StepResult FakeRunner::Wait(std::vector<Finished>* finished) {
  Step step = std::move(steps_.front());
  steps_.pop_front();
  Run(&step);
  finished->clear();
  for (const Item& item : step.items) {
    finished->push_back({item.key, item.epoch, item.start + item.num_new});
  }
  return std::move(step.result);
}

void FakeRunner::LoseSteps() {
  for (Step& step : steps_) {
    if (std::exchange(step.has_run, true)) continue;
    step.result.step = step.number;
    for (const Item& item : step.items) {
      for (const BlockId block : item.written) {
        const int64_t first = int64_t{block} * blocks_.block_size;
        for (int64_t i = 0; i < blocks_.block_size; ++i) WriteSlot(first + i, kRubbish);
      }
      if (item.state_out != kNoState) WriteState(item.state_out, kRubbish, false);
      for (const StateSnapshot& snapshot : item.snapshots) {
        WriteState(snapshot.slot, kRubbish, false);
      }
      SequenceResult& result = step.result.sequences.emplace_back();
      for (int32_t i = 0; i < item.num_samples; ++i) result.samples.push_back({.id = 0});
    }
  }
}

int64_t FakeRunner::PossibleHit(const ExpectedStream& expected, int64_t num_tokens) const {
  const int64_t block_size = blocks_.block_size;
  int64_t num_blocks = (num_tokens - 1) / block_size;
  const bool has_states = !states_.empty();
  for (bool agreed = false; !agreed;) {
    agreed = true;
    while (has_states && num_blocks > 0 &&
           !num_snapshots_.contains(expected.prints[num_blocks * block_size - 1])) {
      --num_blocks;
    }
    for (int group = 0; group < static_cast<int>(tables_.size()); ++group) {
      const int64_t first = FirstVisible(group, num_blocks * block_size) / block_size;
      for (int64_t i = first; i < num_blocks; ++i) {
        const uint64_t tag = SlotTag(expected.prints[(i + 1) * block_size - 1], group);
        if (num_full_blocks_.contains(tag)) continue;
        // Whatever sees this block is out; the shorter ones are looked at again.
        num_blocks = blocks_.groups[group].sliding_window > 0 ? num_blocks - 1 : i;
        agreed = false;
        break;
      }
    }
  }
  return num_blocks * block_size;
}

void FakeRunner::CheckContract(const SchedulerOutput& output) {
  int64_t num_tokens = 0;
  bool chunks_began = false;
  absl::flat_hash_set<int32_t> rows;
  for (const ScheduledSequence& scheduled : output.sequences) {
    num_tokens += scheduled.num_new;
    const bool is_decode = scheduled.num_new == 1 && scheduled.num_samples == 1;
    if (is_decode && chunks_began) fail_("a decode comes after a chunk");
    chunks_began |= !is_decode;
    if (scheduled.row < 0 || scheduled.row >= config_.max_num_seqs) fail_("row out of range");
    if (!rows.insert(scheduled.row).second) fail_("two sequences on one row");
  }
  if (num_tokens != output.num_tokens) fail_("num_tokens is not the sum");
  if (num_tokens > config_.max_num_batched_tokens) fail_("over the token budget");
  if (steps_.size() > 1) fail_("more than two steps in flight");
}

void FakeRunner::CheckSequence(const ScheduledSequence& scheduled) {
  const std::string name = Name(scheduled.key);
  const int64_t num_known = scheduled.tokens.size();
  const int64_t end = scheduled.start + scheduled.num_new;
  if (scheduled.num_new < 1) fail_(absl::StrCat(name, " has nothing to run"));
  if (end >= config_.max_model_len) fail_(absl::StrCat(name, " runs past the maximum length"));
  if (end - scheduled.num_prompt_tokens >= scheduled.request->stop.max_tokens) {
    fail_(absl::StrCat(name, " runs past max_tokens"));
  }
  if (scheduled.input_on_device != (scheduled.start == num_known)) {
    fail_(absl::StrCat(name, " has a wrong input_on_device"));
  }
  if (!scheduled.input_on_device && end > num_known)
    fail_(absl::StrCat(name, " passes its tokens"));
  if (scheduled.num_samples > 0 && scheduled.num_generated != end - scheduled.num_prompt_tokens) {
    fail_(absl::StrCat(name, " has a wrong num_generated"));
  }
  if (scheduled.wants_prompt_logprobs && scheduled.start + 1 >= scheduled.num_prompt_tokens) {
    fail_(absl::StrCat(name, " wants logprobs of no prompt token"));
  }
  const bool is_limited = scheduled.request->constraint != nullptr && scheduled.num_samples > 0;
  if ((scheduled.constraint != nullptr) != is_limited) {
    fail_(absl::StrCat(name, is_limited ? " lacks its constraint" : " has a constraint"));
  }
  const int32_t row = scheduled.row;
  const bool same_owner = row_key_[row] == scheduled.key && row_epoch_[row] == scheduled.epoch;
  if (scheduled.row_is_new) {
    if (same_owner && row_next_start_[row] >= 0) fail_(absl::StrCat(name, " got its row twice"));
    if (scheduled.first_new_block != 0) fail_(absl::StrCat(name, " hides blocks of a new row"));
  } else if (!same_owner) {
    fail_(absl::StrCat(name, " runs on a row that is not its own"));
  } else if (row_next_start_[row] != scheduled.start) {
    fail_(absl::StrCat(name, " starts at ", scheduled.start, " after ", row_next_start_[row]));
  }
  row_key_[row] = scheduled.key;
  row_epoch_[row] = scheduled.epoch;
  row_next_start_[row] = end;
}

// A sequence writes one slot from its first step on, and reads that in all later ones.
void FakeRunner::CheckStates(const ScheduledSequence& scheduled) {
  const std::string name = Name(scheduled.key);
  if (states_.empty()) {
    if (scheduled.state_in != kNoState || scheduled.state_out != kNoState ||
        !scheduled.snapshots.empty()) {
      fail_(absl::StrCat(name, " has a state"));
    }
    return;
  }
  const auto num_slots = static_cast<StateSlot>(states_.size());
  const StateSlot own = scheduled.state_out;
  if (own < 0 || own >= num_slots) return fail_(absl::StrCat(name, " has no state"));
  StateSlot& row_state = row_state_[scheduled.row];
  if (!scheduled.row_is_new && (scheduled.state_in != own || row_state != own)) {
    fail_(absl::StrCat(name, " has another state than before"));
  }
  if (scheduled.row_is_new && (scheduled.state_in == kNoState) != (scheduled.start == 0)) {
    fail_(absl::StrCat(name, " begins at ", scheduled.start, " from ", scheduled.state_in));
  }
  if (scheduled.state_in >= num_slots) fail_(absl::StrCat(name, " reads no slot"));
  row_state = own;
  int64_t last = 0;
  for (const StateSnapshot& snapshot : scheduled.snapshots) {
    const bool is_in_step = snapshot.num_tokens > last && snapshot.num_tokens <= scheduled.num_new;
    if (!is_in_step || (scheduled.start + snapshot.num_tokens) % blocks_.snapshot_grid != 0) {
      fail_(absl::StrCat(name, " has a snapshot after ", snapshot.num_tokens));
    }
    last = snapshot.num_tokens;
    if (snapshot.slot < 0 || snapshot.slot >= num_slots || snapshot.slot == own ||
        snapshot.slot == scheduled.state_in) {
      fail_(absl::StrCat(name, " has its snapshot in slot ", snapshot.slot));
    }
  }
}

FakeRunner::Item FakeRunner::Stage(const ScheduledSequence& scheduled) const {
  Item item{.key = scheduled.key,
            .epoch = scheduled.epoch,
            .row = scheduled.row,
            .row_is_new = scheduled.row_is_new,
            .start = scheduled.start,
            .num_new = scheduled.num_new,
            .num_samples = scheduled.num_samples,
            .input_on_device = scheduled.input_on_device,
            .wants_logprobs = scheduled.request->sampling.logprobs >= 0,
            .wants_prompt_logprobs = scheduled.wants_prompt_logprobs,
            .num_prompt_tokens = scheduled.num_prompt_tokens,
            .input = {},
            .updates = {},
            .touched = {},
            .written = {},
            .state_in = scheduled.state_in,
            .state_out = scheduled.state_out,
            .snapshots = {scheduled.snapshots.begin(), scheduled.snapshots.end()},
            .constraint = scheduled.constraint,
            .mask = {}};
  if (!item.input_on_device) {
    const auto input = scheduled.tokens.subspan(item.start, item.num_new);
    item.input.assign(input.begin(), input.end());
  }
  const int64_t first_written = item.start / blocks_.block_size;
  for (int group = 0; group < static_cast<int>(scheduled.block_tables.size()); ++group) {
    const absl::Span<const BlockId> table = scheduled.block_tables[group];
    const int64_t first_visible = FirstVisible(group, item.start) / blocks_.block_size;
    for (int64_t i = 0; i < static_cast<int64_t>(table.size()); ++i) {
      if (i >= scheduled.first_new_block) item.updates.push_back({group, i, table[i]});
      if (i >= first_visible) item.touched.push_back(table[i]);
      if (i >= first_written) item.written.push_back(table[i]);
    }
  }
  return item;
}

// A step in flight may run at any time until it is waited for.
void FakeRunner::CheckReuse(const Item& item) {
  for (const Step& step : steps_) {
    for (const Item& other : step.items) {
      if (other.key == item.key && other.epoch == item.epoch) continue;
      if (other.row == item.row) {
        fail_(absl::StrCat(Name(item.key), " takes the row of ", Name(other.key), " in flight"));
      }
      CheckStateReuse(item, other);
      for (BlockId block : item.written) {
        if (std::find(other.touched.begin(), other.touched.end(), block) == other.touched.end()) {
          continue;
        }
        fail_(absl::StrCat(Name(item.key), " writes block ", block, " of ", Name(other.key),
                           " in flight"));
      }
    }
  }
}

// A slot that one of them writes is neither read nor written by the other.
void FakeRunner::CheckStateReuse(const Item& item, const Item& other) {
  if (states_.empty()) return;
  const auto check = [this](const Item& writer, StateSlot slot, const Item& second) {
    if (!second.Reads(slot) && !second.Writes(slot)) return;
    fail_(absl::StrCat(Name(writer.key), " writes state ", slot, " of ", Name(second.key)));
  };
  for (const auto& [writer, second] : {std::pair(&item, &other), std::pair(&other, &item)}) {
    check(*writer, writer->state_out, *second);
    for (const StateSnapshot& snapshot : writer->snapshots) check(*writer, snapshot.slot, *second);
  }
}

void FakeRunner::Run(Step* step) {
  if (std::exchange(step->has_run, true)) return;
  step->result.step = step->number;
  for (const Item& item : step->items) step->result.sequences.push_back(RunItem(item));
}

SequenceResult FakeRunner::RunItem(const Item& item) {
  SequenceResult result;
  if (item.row_is_new) {
    for (auto& group : tables_) std::fill(group[item.row].begin(), group[item.row].end(), kNoBlock);
    row_last_token_[item.row] = -1;
  }
  for (const TableUpdate& update : item.updates) {
    if (FaultIsDue(Fault::kMissTableUpdate)) continue;
    tables_[update.group][item.row][update.index] = update.block;
  }
  const ExpectedStream& expected = lookup_(item.key);
  if (!states_.empty()) BeginState(item, expected);
  const uint64_t print = WriteSlots(item, expected, &result);
  ReadBack(item, expected);
  if (item.num_samples > 0) {
    SampledToken& sample = result.samples.emplace_back();
    sample.id = SampleToken(print, item.key.index, item.mask);
    if (FaultIsDue(Fault::kWrongSample)) sample.id = (sample.id + 1) % kVocabSize;
    if (item.wants_logprobs) {
      sample.logprobs = std::make_unique<TokenLogprobs>();
      sample.logprobs->logprob = TokenLogprob(NextPrint(print, sample.id));
    }
    if (!FaultIsDue(Fault::kStaleLastToken)) row_last_token_[item.row] = sample.id;
  }
  return result;
}

// Writes the fingerprints of the new tokens, computed from the input that the scheduler gave, and
// returns the last one.
uint64_t FakeRunner::WriteSlots(const Item& item, const ExpectedStream& expected,
                                SequenceResult* result) {
  uint64_t print = item.start > 0 ? expected.prints[item.start - 1] : expected.root;
  for (int64_t i = 0; i < item.num_new; ++i) {
    const int64_t position = item.start + i;
    TokenId token = item.input_on_device ? row_last_token_[item.row] : item.input[i];
    if (item.num_new > 1 && FaultIsDue(Fault::kWrongInput)) token = (token + 1) % kVocabSize;
    print = NextPrint(print, token);
    for (size_t group = 0; group < tables_.size(); ++group) {
      int64_t slot = Slot(static_cast<int>(group), item.row, position);
      if (slot == kNoSlot) {
        fail_(absl::StrCat(Name(item.key), " has no block for position ", position));
        continue;
      }
      if (FaultIsDue(Fault::kWrongSlot)) slot = (slot + 1) % static_cast<int64_t>(slots_.size());
      if (!FaultIsDue(Fault::kSkipWrite)) WriteSlot(slot, SlotTag(print, static_cast<int>(group)));
    }
    if (!states_.empty()) WriteStates(item, i + 1, print);
    if (item.wants_prompt_logprobs && position + 1 < item.num_prompt_tokens) {
      TokenLogprobs logprobs;
      logprobs.logprob = TokenLogprob(expected.prints[position + 1]);
      result->prompt_logprobs.emplace_back(expected.tokens[position + 1], std::move(logprobs));
    }
  }
  return print;
}

// The state that the item begins from must be that of its prefix.
void FakeRunner::BeginState(const Item& item, const ExpectedStream& expected) {
  const uint64_t right = item.start > 0 ? expected.prints[item.start - 1] : expected.root;
  uint64_t state = item.state_in == kNoState ? expected.root : states_[item.state_in];
  if (item.state_in == kNoState && FaultIsDue(Fault::kLeakedState)) state = states_[item.state_out];
  if (state == right) return;
  fail_(absl::StrCat(Name(item.key), " begins from a wrong state: slot ", item.state_in,
                     ", position ", item.start));
}

// Writes the states that the item leaves after its first `num_tokens` tokens, which end the prefix
// `print`.
void FakeRunner::WriteStates(const Item& item, int64_t num_tokens, uint64_t print) {
  for (const StateSnapshot& snapshot : item.snapshots) {
    const bool is_late = late_snapshot_ == snapshot.slot && num_tokens == item.num_new;
    if (snapshot.num_tokens != num_tokens && !is_late) continue;
    if (is_late) late_snapshot_ = kNoState;
    if (num_tokens < item.num_new && FaultIsDue(Fault::kSnapshotLate)) {
      late_snapshot_ = snapshot.slot;
      continue;
    }
    if (!FaultIsDue(Fault::kLostSnapshot)) WriteState(snapshot.slot, print, /*is_snapshot=*/true);
  }
  if (num_tokens < item.num_new) return;
  StateSlot slot = item.state_out;
  if (FaultIsDue(Fault::kWrongState)) slot = (slot + 1) % static_cast<StateSlot>(states_.size());
  if (!FaultIsDue(Fault::kStaleState)) WriteState(slot, print, /*is_snapshot=*/false);
}

void FakeRunner::WriteState(StateSlot slot, uint64_t print, bool is_snapshot) {
  if (is_snapshot_[slot]) {
    const auto it = num_snapshots_.find(states_[slot]);
    if (--it->second == 0) num_snapshots_.erase(it);
  }
  states_[slot] = print;
  is_snapshot_[slot] = is_snapshot;
  if (is_snapshot) ++num_snapshots_[print];
}

// Tokens are written in order, so a block is full when its last slot is written, and no more when
// its first slot is.
void FakeRunner::WriteSlot(int64_t slot, uint64_t tag) {
  slots_[slot] = tag;
  uint64_t& full_tag = full_tag_[slot / blocks_.block_size];
  const int64_t offset = slot % blocks_.block_size;
  if (offset == 0 && full_tag != 0) {
    const auto it = num_full_blocks_.find(full_tag);
    if (--it->second == 0) num_full_blocks_.erase(it);
    full_tag = 0;
  }
  if (offset == blocks_.block_size - 1 && full_tag == 0) {
    full_tag = tag;
    ++num_full_blocks_[tag];
  }
}

// Every slot that some query of the item sees must hold what the sequence would have there if it
// ran by itself.
void FakeRunner::ReadBack(const Item& item, const ExpectedStream& expected) {
  const int64_t end = item.start + item.num_new;
  for (int group = 0; group < static_cast<int>(tables_.size()); ++group) {
    for (int64_t position = FirstVisible(group, item.start); position < end; ++position) {
      const int64_t slot = Slot(group, item.row, position);
      if (slot == kNoSlot || slots_[slot] != SlotTag(expected.prints[position], group)) {
        return fail_(absl::StrCat(Name(item.key), " reads wrong KV: group ", group, ", position ",
                                  position, ", slot ", slot, ", step of [", item.start, ", ", end,
                                  ")"));
      }
    }
  }
}

int64_t FakeRunner::FirstVisible(int group, int64_t position) const {
  const int64_t window = blocks_.groups[group].sliding_window;
  return window == 0 ? 0 : std::max<int64_t>(position - window + 1, 0);
}

int64_t FakeRunner::Slot(int group, int32_t row, int64_t position) const {
  const BlockId block = tables_[group][row][position / blocks_.block_size];
  if (block == kNoBlock) return kNoSlot;
  return int64_t{block} * blocks_.block_size + position % blocks_.block_size;
}

}  // namespace quire::sim

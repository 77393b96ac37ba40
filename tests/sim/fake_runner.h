// FakeRunner: stands in for ModelRunner and the device. Its KV cache keeps a fingerprint per slot.
// The cache is reached only through row tables that are updated the way the real runner updates its
// own (entries from first_new_block on). Running a step writes the new slots and then reads back
// every slot that attention would read. Any difference from what the sequence would have there by
// itself is a violation at that very step. Where the model keeps states, a slot of them holds the
// fingerprint of the prefix whose state it is, and the one that a step begins from must be that of
// its sequence. Submitting checks the contract of SchedulerOutput, and that no block, row or state
// is reused while a step in flight may touch it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "kvcache/block_manager.h"
#include "scheduler/scheduler.h"
#include "tests/sim/oracle.h"

namespace quire::sim {

// Deliberate faults of the device side, to prove that the rig sees them.
enum class Fault : uint8_t {
  kNone,
  kSkipWrite,        // one token's KV is not written
  kWrongSlot,        // one token's KV goes into the slot beside its own
  kMissTableUpdate,  // a new block does not reach the row's table
  kStaleLastToken,   // a sampled token does not reach the row's last token
  kWrongSample,      // one sampled token is wrong
  kWrongInput,       // one token of a chunk is taken as another
  // Only where the model keeps states.
  kStaleState,    // a step does not write the state that it leaves
  kWrongState,    // .. or writes it into the slot beside its own
  kLeakedState,   // a sequence does not begin from zeros but from what its slot holds
  kSnapshotLate,  // a snapshot is taken after the step instead of on its way
  kLostSnapshot,  // a snapshot is not written
  // Only where requests have constraints.
  kLostMask,  // a mask does not reach the device: any token may be drawn
};

class FakeRunner {
 public:
  // The stream that a sequence must produce; known while it is unfinished or in flight.
  using Lookup = std::function<const ExpectedStream&(const SequenceKey&)>;
  using Fail = std::function<void(const std::string&)>;

  FakeRunner(const SchedulerConfig& config, const BlockManagerConfig& blocks, Lookup lookup,
             Fail fail);

  // Takes a step over, up to its logits.
  void Submit(const SchedulerOutput& output);
  // Asks for the masks of that step, which runs now or at the latest in Wait, always in order.
  void Sample(bool run_now);

  // Whom a result is for.
  struct Finished {
    SequenceKey key;
    uint64_t epoch;
    int64_t end;  // tokens computed so far
  };
  // The result of the oldest step, and whom it is for, in the same order.
  StepResult Wait(std::vector<Finished>* finished);

  // A device error: the steps in flight leave rubbish where they should have written, and their
  // results mean nothing.
  void LoseSteps();

  // The longest prefix of `num_tokens` tokens of `expected`, in whole blocks and less than all of
  // them, whose KV is still in the cache somewhere, and a snapshot after it where the model keeps
  // states: what a prefix cache could find at best.
  int64_t PossibleHit(const ExpectedStream& expected, int64_t num_tokens) const;

  int64_t num_in_flight() const { return static_cast<int64_t>(steps_.size()); }
  bool IsInFlight(const SequenceKey& key) const;

  // From the `countdown`-th opportunity on, `fault` happens once; to snapshots always, because most
  // of them are never read.
  void PlantFault(Fault fault, int64_t countdown);

 private:
  struct TableUpdate {
    int group;
    int64_t index;
    BlockId block;
  };
  // A copy of what the real runner would upload.
  struct Item {
    SequenceKey key;
    uint64_t epoch;
    int32_t row;
    bool row_is_new;
    int64_t start;
    int64_t num_new;
    int32_t num_samples;
    bool input_on_device;
    bool wants_logprobs;
    bool wants_prompt_logprobs;
    int64_t num_prompt_tokens;
    std::vector<TokenId> input;  // [num_new], or empty if on the device
    std::vector<TableUpdate> updates;
    std::vector<BlockId> touched;  // every block that it may read or write
    std::vector<BlockId> written;
    StateSlot state_in;
    StateSlot state_out;
    std::vector<StateSnapshot> snapshots;
    TokenConstraint* constraint;
    std::vector<uint32_t> mask;  // of its constraint, [MaskWords(kVocabSize)]; empty: has none

    bool Reads(StateSlot slot) const { return slot == state_in; }
    bool Writes(StateSlot slot) const;
  };
  struct Step {
    uint64_t number;
    std::vector<Item> items;
    bool has_run = false;
    StepResult result;
  };

  Item Stage(const ScheduledSequence& scheduled) const;
  void CheckContract(const SchedulerOutput& output);
  void CheckSequence(const ScheduledSequence& scheduled);
  void CheckStates(const ScheduledSequence& scheduled);
  void CheckReuse(const Item& item);
  void CheckStateReuse(const Item& item, const Item& other);
  void Run(Step* step);
  SequenceResult RunItem(const Item& item);
  uint64_t WriteSlots(const Item& item, const ExpectedStream& expected, SequenceResult* result);
  void WriteSlot(int64_t slot, uint64_t tag);
  void BeginState(const Item& item, const ExpectedStream& expected);
  void WriteStates(const Item& item, int64_t num_tokens, uint64_t print);
  void WriteState(StateSlot slot, uint64_t print, bool is_snapshot);
  void ReadBack(const Item& item, const ExpectedStream& expected);
  int64_t FirstVisible(int group, int64_t position) const;
  int64_t Slot(int group, int32_t row, int64_t position) const;
  bool FaultIsDue(Fault fault);

  SchedulerConfig config_;
  BlockManagerConfig blocks_;
  Lookup lookup_;
  Fail fail_;
  std::vector<uint64_t> slots_;  // [num_blocks * block_size]
  // How many blocks end with a tag and hold everything before it.
  absl::flat_hash_map<uint64_t, int> num_full_blocks_;
  std::vector<uint64_t> full_tag_;                         // [num_blocks] or 0: not full
  std::vector<uint64_t> states_;                           // [num_state_slots] prints of prefixes
  absl::flat_hash_map<uint64_t, int> num_snapshots_;       // by the print in them
  std::vector<bool> is_snapshot_;                          // [num_state_slots]
  std::vector<std::vector<std::vector<BlockId>>> tables_;  // [groups][rows][max blocks]
  std::vector<TokenId> row_last_token_;                    // [rows]
  std::vector<SequenceKey> row_key_;                       // [rows] who was told to own the row
  std::vector<uint64_t> row_epoch_;                        // [rows]
  std::vector<int64_t> row_next_start_;                    // [rows] where its next step must begin
  std::vector<StateSlot> row_state_;                       // [rows] which its steps write
  std::deque<Step> steps_;
  StateSlot late_snapshot_ = kNoState;  // of a fault
  Fault fault_ = Fault::kNone;
  int64_t fault_countdown_ = 0;
};

}  // namespace quire::sim

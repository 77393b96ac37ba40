#include "engine/capacity.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/start_plan.h"
#include "kernels/base/status_macros.h"

namespace quire {

namespace {

constexpr int64_t kUsualLengths[] = {1024, 4096, 8192, 32768};

std::vector<LayerKv> KvOfLayers(const KvLayout& layout) {
  std::vector<LayerKv> kv;
  for (const KvLayerGroup& group : layout.groups) {
    if (kv.empty() || kv.back().spec != group.spec) kv.push_back({.spec = group.spec});
    kv.back().num_layers += static_cast<int64_t>(group.layers.size());
    kv.back().bytes_per_token += layout.BlockBytes() / layout.block_size;
  }
  return kv;
}

std::vector<StreamCapacity> StreamsByLength(const KvDemand& demand, int64_t num_blocks,
                                            int64_t most_streams) {
  std::vector<int64_t> lengths;
  for (const int64_t length : kUsualLengths) {
    if (length < demand.max_model_len) lengths.push_back(length);
  }
  lengths.push_back(demand.max_model_len);
  std::vector<StreamCapacity> streams;
  for (const int64_t length : lengths) {
    const int64_t decoding = BlocksWhileDecoding(demand, length);
    const int64_t left = num_blocks - BlocksPerSequence(demand, length);
    streams.push_back({.num_tokens = length,
                       .kv_bytes = decoding * demand.layout.BlockBytes(),
                       .num_streams = left < 0 ? 0 : std::min(1 + left / decoding, most_streams)});
  }
  return streams;
}

StateCapacity StatesOf(const StartPlan& plan) {
  if (plan.state_layout.empty()) return {};
  return {.num_layers = static_cast<int64_t>(plan.state_layout.size()),
          .bytes_per_sequence = plan.model.state_bytes,
          .num_snapshots = plan.num_state_slots - plan.step.max_num_seqs};
}

// Makes the ledger that the start will show. Memory that no entry takes is free afterwards.
MemoryLedger PlannedLedger(const EngineConfig& config, const StartPlan& plan,
                           const DeviceFacts& device, int64_t kv_bytes) {
  MemoryLedger ledger;
  ledger.total_bytes = device.memory.total_bytes;
  ledger.available_bytes = device.memory.free_bytes;
  const StepMemory steps = StepMemoryFor(plan, plan.model.max_model_len);
  ledger.Add(kWeightsEntry, plan.weights.bytes);
  ledger.Add(kActivationsEntry, steps.activations_bytes);
  if (!plan.state_layout.empty()) {
    ledger.Add(kRecurrentEntry, plan.num_state_slots * BytesPerSlot(plan.state_layout));
  }
  ledger.Add(kStateEntry, steps.state_bytes);
  ledger.Add(kKvCacheEntry, kv_bytes);
  if (config.device == DeviceKind::kCuda) ledger.Add(kLateEntry, plan.late_bytes);
  ledger.free_bytes = ledger.available_bytes;
  for (const auto& [what, bytes] : ledger.entries) ledger.free_bytes -= bytes;
  return ledger;
}

}  // namespace

absl::StatusOr<Capacity> PlanCapacity(const EngineConfig& config, const DeviceFacts& device) {
  ASSIGN_OR_RETURN(StartPlan plan, PlanStart(config, device));
  Capacity capacity;
  if (config.load_format == LoadFormat::kAuto) {
    const absl::StatusOr<int64_t> bytes =
        Weights::CheckFiles(plan.model.config, config.model_folder);
    if (!bytes.ok() && !absl::IsNotFound(bytes.status())) return bytes.status();
    if (bytes.ok()) capacity.file_bytes = *bytes;
  }
  ASSIGN_OR_RETURN(const KvPlan kv,
                   PlanContext(config, plan, device.memory, [&](int64_t max_model_len) {
                     return BytesBesideKv(plan, config.device, max_model_len);
                   }));
  plan.model.max_model_len = kv.max_model_len;
  plan.model.num_kv_blocks = kv.num_blocks;
  plan.model.block_size = config.block_size;
  plan.model.max_num_seqs = plan.step.max_num_seqs;
  plan.model.max_num_batched_tokens = plan.step.max_num_batched_tokens;
  plan.model.num_parameters = plan.weights.num_parameters;
  plan.model.device_name = device.info.name;
  const KvDemand demand = {
      .layout = plan.kv_layout, .step = plan.step, .max_model_len = kv.max_model_len};
  capacity.block_bytes = plan.kv_layout.BlockBytes();
  capacity.ledger = PlannedLedger(config, plan, device, kv.num_blocks * capacity.block_bytes);
  capacity.weights = plan.weights.by_format;
  capacity.kv = KvOfLayers(plan.kv_layout);
  capacity.num_layers_without_kv = static_cast<int64_t>(plan.model.config.layers.size());
  for (const LayerKv& layers : capacity.kv) capacity.num_layers_without_kv -= layers.num_layers;
  capacity.num_layers_without_kv -= static_cast<int64_t>(plan.state_layout.size());
  capacity.states = StatesOf(plan);
  // A sequence that runs has a state of its own, and only running sequences have blocks.
  const int64_t most_streams =
      plan.state_layout.empty() ? std::numeric_limits<int64_t>::max() : plan.step.max_num_seqs;
  capacity.streams = StreamsByLength(demand, kv.num_blocks, most_streams);
  capacity.model = std::move(plan.model);
  return capacity;
}

}  // namespace quire

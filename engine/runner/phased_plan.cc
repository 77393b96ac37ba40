#include "engine/runner/phased_plan.h"

#include <utility>

#include "engine/runner/cascade_plan.h"
#include "kernels/attention_batch.h"
#include "kernels/base/status_macros.h"

namespace quire {

namespace {

class PhasedPlan : public AttentionPlan {
 public:
  PhasedPlan(std::unique_ptr<AttentionPlan> prefill, std::unique_ptr<AttentionPlan> decode)
      : prefill_(std::move(prefill)), decode_(std::move(decode)) {}

  void PlanStep(Stream& stream, const AttentionBatch& batch) override {
    decode_->PlanStep(stream, DecodesOf(batch));
    prefill_->PlanStep(stream, PrefillsOf(batch));
  }
  void Run(Stream& stream, const AttentionRunArgs& args) const override {
    decode_->Run(stream, args);
    prefill_->Run(stream, args);
  }

 private:
  const std::unique_ptr<AttentionPlan> prefill_;
  const std::unique_ptr<AttentionPlan> decode_;
};

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<AttentionPlan>>> CreatePhasedPlans(
    Device& device, const AttentionPaths& paths, absl::Span<const AttentionGeometry> geometries,
    const AttentionLimits& limits) {
  const bool has_cascade = paths.max_prefix_groups > 0;
  if (paths.prefill == paths.decode && !has_cascade) {
    return paths.decode->CreatePlans(geometries, limits);
  }
  AttentionLimits decode = limits, prefill = limits;
  decode.only_phase = AttentionPhase::kDecode;
  prefill.only_phase = AttentionPhase::kPrefill;
  ASSIGN_OR_RETURN(auto plans, paths.decode->CreatePlans(geometries, decode));
  ASSIGN_OR_RETURN(auto prefills, paths.prefill->CreatePlans(geometries, prefill));
  for (size_t i = 0; i < plans.size(); ++i) {
    if (has_cascade) {
      ASSIGN_OR_RETURN(plans[i], MakeCascadePlan(device, *paths.prefix, std::move(plans[i]),
                                                 geometries[i], limits, paths.max_prefix_groups));
    }
    plans[i] = std::make_unique<PhasedPlan>(std::move(prefills[i]), std::move(plans[i]));
  }
  return plans;
}

}  // namespace quire

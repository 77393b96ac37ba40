#include "engine/model/weights/weight_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace quire {
namespace {

constexpr float kDummyNorm = 1.0f;
constexpr float kDummyBias = 0.0f;

template <typename Part>
int64_t TotalRows(const std::vector<Part>& parts) {
  int64_t rows = 0;
  for (const Part& part : parts) rows += part.num_rows;
  return rows;
}

int64_t SizeOf(const std::vector<WeightPart>& parts) {
  int64_t size = 0;
  for (const WeightPart& part : parts) {
    size += part.num_rows * std::max<int64_t>(1, part.num_experts);
  }
  return size;
}

}  // namespace

std::string ModuleOf(const WeightPart& part) {
  return std::string(absl::StripSuffix(part.name, ".weight"));
}

std::vector<int64_t> ShapeOf(const WeightPart& part, int64_t in_features) {
  std::vector<int64_t> shape = {part.num_rows, in_features};
  if (part.transposed) std::swap(shape[0], shape[1]);
  if (part.num_experts > 0) shape.insert(shape.begin(), part.num_experts);
  return shape;
}

std::vector<int64_t> FirstRows(const std::vector<WeightPart>& parts) {
  std::vector<int64_t> first_rows(parts.size(), 0);
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].expert != parts[i - 1].expert) continue;
    first_rows[i] = first_rows[i - 1] + parts[i - 1].num_rows;
  }
  return first_rows;
}

void ModulePlanner::Embedding(LinearWeight* weight, int64_t in_features, const Module& module) {
  Linear(weight, in_features, {module}, {});
  plan_->matrices.back().role = MatrixRole::kEmbedding;
}

void ModulePlanner::Head(LinearWeight* weight, int64_t in_features, const Module& module) {
  Linear(weight, in_features, {module}, {});
  plan_->matrices.back().role = MatrixRole::kHead;
}

void ModulePlanner::Linear(LinearWeight* weight, int64_t in_features,
                           const std::vector<Module>& modules, const LinearTraits& traits) {
  std::vector<Module> own = modules, other;
  if (!traits.fused.empty()) other = {{traits.fused, TotalRows(modules)}};
  if (conventions_.fused && !other.empty()) std::swap(own, other);
  weight->out_features = TotalRows(modules);
  weight->in_features = in_features;
  plan_->matrices.push_back({.weight = weight,
                             .parts = Named(".weight", own),
                             .other_parts = Named(".weight", other),
                             .bias = traits.bias,
                             .gated = traits.gated,
                             .normed = traits.normed,
                             .float32_out = traits.float32_out,
                             .routes = traits.routes,
                             .role = traits.role});
  if (!traits.fused_turns.empty()) {
    plan_->matrices.back().other_parts.front().turns = traits.fused_turns;
  }
  if (traits.bias == nullptr) return;
  Vector(traits.bias, Named(".bias", own), kDummyBias, 0);
  plan_->vectors.back().other_parts = Named(".bias", other);
}

void ModulePlanner::Experts(LinearWeight* weight, int64_t out_features, int64_t in_features,
                            const std::vector<Module>& modules, const ExpertTraits& traits) {
  weight->out_features = out_features;
  weight->in_features = in_features;
  weight->num_experts = traits.num_experts;
  const bool is_only_stacked = modules.empty();
  const std::string stacked = absl::StrCat(prefix_, traits.name, ".", traits.stacked);
  std::vector<WeightPart> own, other = {{.name = stacked,
                                         .num_rows = out_features,
                                         .num_experts = traits.num_experts,
                                         .transposed = is_only_stacked,
                                         .turns = traits.turns}};
  for (int64_t expert = 0; expert < traits.num_experts; ++expert) {
    for (const Module& module : modules) {
      own.push_back(
          {.name = absl::StrCat(prefix_, traits.name, ".", expert, ".", module.name, ".weight"),
           .num_rows = module.num_rows,
           .expert = expert});
    }
  }
  if (is_only_stacked) std::swap(own, other);
  plan_->matrices.push_back({.weight = weight,
                             .parts = std::move(own),
                             .other_parts = std::move(other),
                             .bias = traits.bias,
                             .gated = traits.gated,
                             .top_k = traits.top_k});
  if (traits.bias == nullptr) return;
  Vector(traits.bias,
         {{.name = absl::StrCat(stacked, "_bias"),
           .num_rows = out_features,
           .num_experts = traits.num_experts,
           .turns = traits.turns}},
         kDummyBias, 0);
  plan_->vectors.back().shape = {traits.num_experts, out_features};
}

void ModulePlanner::Norm(Tensor* tensor, absl::string_view name, int64_t size) {
  Vector(tensor, Named(".weight", {{name, size}}), kDummyNorm, conventions_.norm_offset);
}

void ModulePlanner::Parameter(Tensor* tensor, absl::string_view name, int64_t size,
                              float dummy_value, std::vector<int64_t> shape, float factor) {
  Vector(tensor, Named("", {{name, size}}), dummy_value, 0);
  plan_->vectors.back().shape = std::move(shape);
  plan_->vectors.back().factor = factor;
}

void ModulePlanner::Scales(Tensor* tensor, int64_t size,
                           const std::vector<absl::string_view>& names) {
  ScalesPlan scales = {.tensor = tensor, .size = size, .names = {}};
  for (const absl::string_view name : names) scales.names.push_back(absl::StrCat(prefix_, name));
  plan_->scales.push_back(std::move(scales));
}

void ModulePlanner::Spare(absl::string_view name) {
  plan_->spare_modules.push_back(absl::StrCat(prefix_, name));
}

void ModulePlanner::Vector(Tensor* tensor, std::vector<WeightPart> parts, float dummy_value,
                           float offset) {
  const int64_t size = SizeOf(parts);
  plan_->vectors.push_back({tensor, size, std::move(parts), dummy_value, offset});
}

std::vector<WeightPart> ModulePlanner::Named(absl::string_view kind,
                                             const std::vector<Module>& modules) const {
  std::vector<WeightPart> named;
  named.reserve(modules.size());
  for (const Module& module : modules) {
    named.push_back({absl::StrCat(prefix_, module.name, kind), module.num_rows});
  }
  return named;
}

}  // namespace quire

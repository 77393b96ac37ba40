#include "engine/model/weights/weight_plan.h"

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

}  // namespace

std::string ModuleOf(const WeightPart& part) {
  return std::string(absl::StripSuffix(part.name, ".weight"));
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
                             .role = traits.role});
  if (traits.bias == nullptr) return;
  Vector(traits.bias, Named(".bias", own), kDummyBias, 0);
  plan_->vectors.back().other_parts = Named(".bias", other);
}

void ModulePlanner::Norm(Tensor* tensor, absl::string_view name, int64_t size) {
  Vector(tensor, Named(".weight", {{name, size}}), kDummyNorm, conventions_.norm_offset);
}

void ModulePlanner::Parameter(Tensor* tensor, absl::string_view name, int64_t size,
                              float dummy_value, std::vector<int64_t> shape) {
  Vector(tensor, Named("", {{name, size}}), dummy_value, 0);
  plan_->vectors.back().shape = std::move(shape);
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
  const int64_t size = TotalRows(parts);
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

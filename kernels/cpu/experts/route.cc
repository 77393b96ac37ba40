// Route: each token's scores, its choice and its weights are made by one thread; then one thread
// sorts the pairs by counting them.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/base/check.h"
#include "kernels/cpu/elementwise/row_ranges.h"
#include "kernels/cpu/runtime/free_ops.h"

namespace quire::cpu {

namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// The best of what it is shown, best first; of equal ones what was shown first.
template <int kMaxSize>
class Best {
 public:
  explicit Best(int size) : size_(size) {}

  void Show(int32_t index, float value) {
    if (count_ == size_ && !(value > values_[count_ - 1])) return;
    int at = count_ < size_ ? count_++ : count_ - 1;
    for (; at > 0 && value > values_[at - 1]; --at) {
      values_[at] = values_[at - 1];
      indices_[at] = indices_[at - 1];
    }
    values_[at] = value;
    indices_[at] = index;
  }

  int count() const { return count_; }
  int32_t index(int i) const { return indices_[i]; }
  float value(int i) const { return values_[i]; }

 private:
  const int size_;
  int count_ = 0;
  std::array<float, kMaxSize> values_;
  std::array<int32_t, kMaxSize> indices_;
};

// What a token's experts are chosen by and weighted with.
struct Scores {
  std::array<float, RouterRule::kMaxExperts> scores;
  std::array<float, RouterRule::kMaxExperts> keys;  // with the correction; NaN is the lowest
  bool has_nan = false;                             // among the logits
};

// NaN counts as a score of 0, so that the others can be told apart.
void Score(const RouterRule& rule, const float* logits, const float* correction, Scores* out) {
  const int num_experts = rule.num_experts;
  if (rule.score == RouterScore::kSoftmax) {
    float most = kLowest;
    for (int e = 0; e < num_experts; ++e) most = logits[e] > most ? logits[e] : most;
    float sum = 0;
    for (int e = 0; e < num_experts; ++e) {
      out->scores[e] = std::isnan(logits[e]) ? 0 : std::exp(logits[e] - most);
      sum += out->scores[e];
    }
    for (int e = 0; e < num_experts; ++e) out->scores[e] /= sum;
  } else {
    for (int e = 0; e < num_experts; ++e) {
      out->scores[e] = std::isnan(logits[e]) ? 0 : 1 / (1 + std::exp(-logits[e]));
    }
  }
  out->has_nan = false;
  for (int e = 0; e < num_experts; ++e) {
    const float key = out->scores[e] + (correction == nullptr ? 0 : correction[e]);
    const bool is_nan = std::isnan(logits[e]) || std::isnan(key);
    out->keys[e] = is_nan ? kLowest : key;
    out->has_nan = out->has_nan || is_nan;
  }
}

float ScoreOfGroup(const RouterRule& rule, const float* keys, int group_size) {
  Best<2> best(rule.group_score == GroupScore::kBest ? 1 : 2);
  for (int e = 0; e < group_size; ++e) best.Show(e, keys[e]);
  return best.count() == 2 ? best.value(0) + best.value(1) : best.value(0);
}

// Shows the experts of the best groups, in ascending order.
void ShowExperts(const RouterRule& rule, const float* keys, Best<RouterRule::kMaxTopK>* best) {
  const int group_size = rule.num_experts / rule.num_groups;
  std::array<bool, RouterRule::kMaxExperts> is_kept;
  std::fill_n(is_kept.begin(), rule.num_groups, rule.top_groups == rule.num_groups);
  if (rule.top_groups < rule.num_groups) {
    Best<RouterRule::kMaxExperts> groups(rule.top_groups);
    for (int g = 0; g < rule.num_groups; ++g) {
      groups.Show(g, ScoreOfGroup(rule, keys + g * group_size, group_size));
    }
    for (int i = 0; i < groups.count(); ++i) is_kept[groups.index(i)] = true;
  }
  for (int e = 0; e < rule.num_experts; ++e) {
    if (is_kept[e / group_size]) best->Show(e, keys[e]);
  }
}

void RouteToken(const RouteArgs& args, int64_t token) {
  const RouterRule& rule = args.rule;
  Scores scores;
  Score(rule, args.logits.as<float>() + token * args.logits.row_stride(),
        args.correction.empty() ? nullptr : args.correction.as<float>(), &scores);
  Best<RouterRule::kMaxTopK> best(rule.top_k);
  ShowExperts(rule, scores.keys.data(), &best);
  CHECK_EQ(best.count(), rule.top_k);
  int32_t* const experts = args.out.experts.as<int32_t>() + token * rule.top_k;
  float* const weights = args.out.weights.as<float>() + token * rule.top_k;
  float sum = 0;
  for (int i = 0; i < rule.top_k; ++i) {
    experts[i] = best.index(i);
    weights[i] =
        scores.has_nan ? std::numeric_limits<float>::quiet_NaN() : scores.scores[experts[i]];
    sum += weights[i];
  }
  // Sigmoids may all vanish; of a softmax the best does not.
  if (rule.score == RouterScore::kSigmoid) sum += 1e-20f;
  for (int i = 0; i < rule.top_k; ++i) {
    if (rule.renormalise) weights[i] /= sum;
    weights[i] *= rule.scale;
    if (!args.expert_scales.empty()) weights[i] *= args.expert_scales.as<float>()[experts[i]];
  }
}

void CountChoices(const RouteArgs& args) {
  const int64_t top_k = args.rule.top_k;
  const auto* const experts = args.out.experts.as<int32_t>();
  auto* const counts = args.counts.as<int64_t>();
  for (int64_t token = 0; token < args.out.num_tokens(); ++token) {
    if (args.slots != nullptr && args.slots[token] < 0) continue;
    for (int64_t i = 0; i < top_k; ++i) ++counts[experts[token * top_k + i]];
  }
}

// Counts the pairs of each expert, then puts each behind those before it.
void SortPairs(const Routing& routing) {
  const auto* experts = routing.experts.as<int32_t>();
  auto* const pairs = routing.pairs.as<int32_t>();
  auto* const offsets = routing.offsets.as<int32_t>();
  const auto num_pairs = static_cast<int32_t>(routing.num_pairs());
  std::array<int32_t, RouterRule::kMaxExperts> next = {};
  for (int32_t i = 0; i < num_pairs; ++i) ++next[experts[i]];
  int32_t sum = 0;
  for (int64_t e = 0; e < routing.num_experts(); ++e) {
    offsets[e] = sum;
    sum += next[e];
    next[e] = offsets[e];
  }
  offsets[routing.num_experts()] = sum;
  for (int32_t i = 0; i < num_pairs; ++i) pairs[next[experts[i]]++] = i;
}

}  // namespace

void Route(const RouteArgs& args, ThreadPool& pool) {
  constexpr int64_t kCostOfExpert = 8;  // in elements of other operations
  pool.ParallelFor(args.out.num_tokens(), RowsPerRange(kCostOfExpert * args.rule.num_experts),
                   [&](int64_t begin, int64_t end, int) {
                     for (int64_t token = begin; token < end; ++token) RouteToken(args, token);
                   });
  SortPairs(args.out);
  if (!args.counts.empty()) CountChoices(args);
}

}  // namespace quire::cpu

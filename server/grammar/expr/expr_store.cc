#include "server/grammar/expr/expr_store.h"

#include <algorithm>
#include <limits>
#include <random>
#include <tuple>
#include <utility>

#include "kernels/base/check.h"

namespace quire {

namespace {

uint64_t Mix(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xd1b54a32d192ed03u);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Drawn at start, so that nobody can choose schemas whose terms collide.
uint64_t Seed() {
  static const uint64_t seed = [] {
    std::random_device device;
    return (uint64_t{device()} << 32) | device();
  }();
  return seed;
}

uint64_t HashText(std::string_view text) {
  uint64_t hash = Mix(Seed(), text.size());
  for (const char c : text) hash = Mix(hash, static_cast<uint8_t>(c));
  return hash;
}

}  // namespace

ExprStore::ExprStore(size_t max_bytes) : max_bytes_(max_bytes) {
  table_.resize(256);
  nodes_.push_back({ExprKind::kNothing, false, false, true, 0, 0, 0, Mix(Seed(), 1)});
  nodes_.push_back({ExprKind::kEmpty, true, false, false, 0, 0, 0, Mix(Seed(), 2)});
  nodes_.push_back({ExprKind::kNot, true, false, false, kNothing, 0, 0, Mix(Seed(), 3)});
}

ExprId ExprStore::Add(Node node, uint64_t content_hash) {
  node.hash = Mix(content_hash, Mix(Seed(), static_cast<uint64_t>(node.kind) + 16));
  const size_t mask = table_.size() - 1;
  size_t slot = node.hash & mask;
  for (; table_[slot] != 0; slot = (slot + 1) & mask) {
    if (IsSame(nodes_[table_[slot]], node)) return table_[slot];
  }
  if (num_bytes() > max_bytes_) overflowed_ = true;
  if (overflowed_) return kNothing;
  const ExprId id = static_cast<ExprId>(nodes_.size());
  nodes_.push_back(node);
  table_[slot] = id;
  if (nodes_.size() * 2 > table_.size()) Grow();
  return id;
}

// The pools' contents are compared by the callers' hashes and here.
bool ExprStore::IsSame(const Node& a, const Node& b) const {
  if (a.hash != b.hash || a.kind != b.kind) return false;
  switch (a.kind) {
    case ExprKind::kBytes:
      return byte_sets_[a.a] == byte_sets_[b.a];
    case ExprKind::kLiteral:
      return a.b == b.b && literal_pool_.compare(a.a, a.b, literal_pool_, b.a, b.b) == 0;
    case ExprKind::kOr:
    case ExprKind::kAnd:
      return a.b == b.b &&
             std::equal(operand_pool_.begin() + a.a, operand_pool_.begin() + a.a + a.b,
                        operand_pool_.begin() + b.a);
    case ExprKind::kRemainder:
      return remainders_[a.a] == remainders_[b.a];
    default:
      return a.a == b.a && a.b == b.b && a.c == b.c;
  }
}

void ExprStore::Grow() {
  std::vector<ExprId> table(table_.size() * 2);
  const size_t mask = table.size() - 1;
  for (const ExprId id : table_) {
    if (id == 0) continue;
    size_t slot = nodes_[id].hash & mask;
    while (table[slot] != 0) slot = (slot + 1) & mask;
    table[slot] = id;
  }
  table_ = std::move(table);
}

size_t ExprStore::num_bytes() const {
  return nodes_.size() * sizeof(Node) + table_.size() * sizeof(ExprId) +
         byte_sets_.size() * sizeof(ByteSet) + operand_pool_.size() * sizeof(ExprId) +
         literal_pool_.size() + remainders_.size() * sizeof(Remainder);
}

ExprId ExprStore::Bytes(const ByteSet& bytes) {
  if (bytes.empty()) return kNothing;
  uint64_t hash = Seed();
  for (const uint64_t word : bytes.words()) hash = Mix(hash, word);
  byte_sets_.push_back(bytes);
  const size_t before = nodes_.size();
  const ExprId id = Add(
      {ExprKind::kBytes, false, false, false, static_cast<uint32_t>(byte_sets_.size() - 1)}, hash);
  if (nodes_.size() == before) byte_sets_.pop_back();
  return id;
}

ExprId ExprStore::Literal(std::string_view text) {
  if (text.empty()) return kEmpty;
  const size_t offset = literal_pool_.size();
  literal_pool_.append(text);
  const size_t before = nodes_.size();
  const ExprId id = LiteralAt(offset, text.size());
  if (nodes_.size() == before || text.size() == 1) literal_pool_.resize(offset);
  return id;
}

ExprId ExprStore::LiteralAt(size_t offset, size_t size) {
  if (size == 1) return Byte(static_cast<uint8_t>(literal_pool_[offset]));
  return Add({ExprKind::kLiteral, false, false, false, static_cast<uint32_t>(offset),
              static_cast<uint32_t>(size)},
             HashText(std::string_view(literal_pool_).substr(offset, size)));
}

ExprId ExprStore::WithoutFirstByte(ExprId literal) {
  return LiteralAt(nodes_[literal].a + 1, nodes_[literal].b - 1);
}

std::string_view ExprStore::literal(ExprId id) const {
  return std::string_view(literal_pool_).substr(nodes_[id].a, nodes_[id].b);
}

absl::Span<const ExprId> ExprStore::operands(ExprId id) const {
  return absl::MakeConstSpan(operand_pool_).subspan(nodes_[id].a, nodes_[id].b);
}

// x{1,2} x{3,4} is x{4,6}: without this, x? x? x? ... has derivatives as long as itself. kNothing
// if the two are not repeats of the same thing.
ExprId ExprStore::MergedRepeat(ExprId first, ExprId second) {
  const bool is_repeat[] = {kind(first) == ExprKind::kRepeat, kind(second) == ExprKind::kRepeat};
  const ExprId operand = is_repeat[0] ? this->first(first) : first;
  if (!is_repeat[0] && !is_repeat[1]) return kNothing;
  if (operand != (is_repeat[1] ? this->first(second) : second)) return kNothing;
  uint64_t min_sum = 0, max_sum = 0;
  bool is_unbounded = false;
  for (const ExprId id : {first, second}) {
    const bool is_one = kind(id) != ExprKind::kRepeat || id == operand;
    min_sum += is_one ? 1 : min(id);
    max_sum += is_one ? 1 : max(id);
    is_unbounded = is_unbounded || (!is_one && max(id) == kUnbounded);
  }
  if (min_sum >= kUnbounded || (!is_unbounded && max_sum >= kUnbounded)) return kNothing;
  return Repeat(operand, static_cast<uint32_t>(min_sum),
                is_unbounded ? kUnbounded : static_cast<uint32_t>(max_sum));
}

ExprId ExprStore::Concat(ExprId first, ExprId second) {
  if (first == kNothing || second == kNothing) return kNothing;
  if (first == kEmpty) return second;
  if (second == kEmpty) return first;
  // (a b) c is a (b c); parts of `first` are few, except of a rule with many of them, built once.
  if (kind(first) == ExprKind::kConcat) {
    std::vector<ExprId> parts;
    ExprId last = first;
    for (; kind(last) == ExprKind::kConcat; last = this->second(last))
      parts.push_back(this->first(last));
    ExprId result = Concat(last, second);
    for (size_t i = parts.size(); i-- > 0;) result = Concat(parts[i], result);
    return result;
  }
  const bool has_more = kind(second) == ExprKind::kConcat;
  const ExprId merged = MergedRepeat(first, has_more ? this->first(second) : second);
  if (merged != kNothing) return has_more ? Concat(merged, this->second(second)) : merged;
  const Node& a = nodes_[first];
  const Node& b = nodes_[second];
  return Add({ExprKind::kConcat, a.is_nullable && b.is_nullable, a.has_rules || b.has_rules,
              a.may_be_nothing || b.may_be_nothing, first, second},
             Mix(a.hash, b.hash));
}

ExprId ExprStore::Concat(std::initializer_list<ExprId> parts) {
  ExprId result = kEmpty;
  for (auto part = std::rbegin(parts); part != std::rend(parts); ++part)
    result = Concat(*part, result);
  return result;
}

// Into `flat`: the operands, with the operands of nested ones, sorted, each once.
bool ExprStore::Flatten(ExprKind kind, absl::Span<const ExprId> operands,
                        std::vector<ExprId>* flat) {
  const ExprId neutral = kind == ExprKind::kOr ? kNothing : kAnything;
  const ExprId absorbing = kind == ExprKind::kOr ? kAnything : kNothing;
  for (const ExprId id : operands) {
    if (id == absorbing) return false;
    if (id == neutral) continue;
    if (this->kind(id) != kind) {
      flat->push_back(id);
      continue;
    }
    const absl::Span<const ExprId> nested = this->operands(id);
    flat->insert(flat->end(), nested.begin(), nested.end());
  }
  CountWork(flat->size());
  std::sort(flat->begin(), flat->end());
  flat->erase(std::unique(flat->begin(), flat->end()), flat->end());
  return true;
}

ExprId ExprStore::AddList(ExprKind kind, std::vector<ExprId> operands) {
  const bool is_or = kind == ExprKind::kOr;
  bool is_nullable = !is_or, has_rules = false, may_be_nothing = is_or;
  uint64_t hash = Mix(Seed(), operands.size());
  for (const ExprId id : operands) {
    const Node& node = nodes_[id];
    is_nullable = is_or ? is_nullable || node.is_nullable : is_nullable && node.is_nullable;
    has_rules = has_rules || node.has_rules;
    // An alternation has strings as soon as one alternative surely has; but its other alternatives
    // are looked at nevertheless when a derivative shows that they are all that is left.
    may_be_nothing = may_be_nothing && node.may_be_nothing;
  }
  // Sums, so that the order of ids, which differs between stores, does not matter.
  uint64_t sum = 0;
  for (const ExprId id : operands) sum += Mix(nodes_[id].hash, Seed());
  hash = Mix(hash, sum);
  const uint32_t offset = static_cast<uint32_t>(operand_pool_.size());
  operand_pool_.insert(operand_pool_.end(), operands.begin(), operands.end());
  const size_t before = nodes_.size();
  const ExprId id = Add({kind, is_nullable, has_rules, is_or ? may_be_nothing : true, offset,
                         static_cast<uint32_t>(operands.size())},
                        hash);
  if (nodes_.size() == before) operand_pool_.resize(offset);
  return id;
}

// x{2,5}y | x{3,8}y is x{2,8}y: without this, derivatives of nested repeats grow with the counts.
void ExprStore::MergeRepeats(std::vector<ExprId>* operands) {
  struct Counted {
    ExprId operand, rest;
    uint32_t min, max;
  };
  std::vector<Counted> counted;
  const auto split = [&](ExprId id) -> Counted {
    ExprId head = id, rest = kEmpty;
    if (kind(id) == ExprKind::kConcat) head = first(id), rest = second(id);
    if (kind(head) == ExprKind::kRepeat) return {first(head), rest, min(head), max(head)};
    return {kNothing, kNothing, 0, 0};
  };
  size_t num_counted = 0;
  for (const ExprId id : *operands) num_counted += split(id).operand != kNothing;
  if (num_counted < 2) return;
  std::vector<ExprId> others;
  for (const ExprId id : *operands) {
    const Counted one = split(id);
    one.operand != kNothing ? counted.push_back(one) : others.push_back(id);
  }
  std::sort(counted.begin(), counted.end(), [](const Counted& a, const Counted& b) {
    return std::tie(a.operand, a.rest, a.min, a.max) < std::tie(b.operand, b.rest, b.min, b.max);
  });
  for (size_t i = 0; i < counted.size();) {
    Counted one = counted[i++];
    for (; i < counted.size() && counted[i].operand == one.operand && counted[i].rest == one.rest &&
           (one.max == kUnbounded || counted[i].min <= one.max + 1);
         ++i) {
      one.max = std::max(one.max, counted[i].max);
    }
    others.push_back(Concat(Repeat(one.operand, one.min, one.max), one.rest));
  }
  std::sort(others.begin(), others.end());
  others.erase(std::unique(others.begin(), others.end()), others.end());
  *operands = std::move(others);
}

ExprId ExprStore::Or(absl::Span<const ExprId> operands) {
  std::vector<ExprId> flat;
  if (!Flatten(ExprKind::kOr, operands, &flat)) return kAnything;
  if (flat.size() > 1) {
    ByteSet bytes;
    const auto is_bytes = [this](ExprId id) { return kind(id) == ExprKind::kBytes; };
    if (std::count_if(flat.begin(), flat.end(), is_bytes) > 1) {
      for (const ExprId id : flat) {
        if (is_bytes(id)) bytes = bytes | this->bytes(id);
      }
      std::erase_if(flat, is_bytes);
      const ExprId merged = Bytes(bytes);
      flat.insert(std::lower_bound(flat.begin(), flat.end(), merged), merged);
    }
    MergeRepeats(&flat);
  }
  // The empty string beside what has it already.
  if (flat.size() > 1 && flat[0] == kEmpty &&
      std::any_of(flat.begin() + 1, flat.end(), [this](ExprId id) { return is_nullable(id); })) {
    flat.erase(flat.begin());
  }
  if (flat.empty()) return kNothing;
  if (flat.size() == 1) return flat[0];
  return AddList(ExprKind::kOr, std::move(flat));
}

ExprId ExprStore::And(absl::Span<const ExprId> operands) {
  std::vector<ExprId> flat;
  if (!Flatten(ExprKind::kAnd, operands, &flat)) return kNothing;
  bool has_bytes = false;
  ByteSet bytes;
  for (const ExprId id : flat) {
    CHECK(!has_rules(id)) << "an intersection with rules";
    if (kind(id) != ExprKind::kBytes) continue;
    bytes = has_bytes ? bytes & this->bytes(id) : this->bytes(id);
    has_bytes = true;
  }
  if (has_bytes) {
    std::erase_if(flat, [this](ExprId id) { return kind(id) == ExprKind::kBytes; });
    const ExprId merged = Bytes(bytes);
    if (merged == kNothing) return kNothing;
    flat.insert(std::lower_bound(flat.begin(), flat.end(), merged), merged);
  }
  if (flat.empty()) return kAnything;
  if (flat.size() == 1) return flat[0];
  if (flat[0] == kEmpty) {
    const bool all =
        std::all_of(flat.begin(), flat.end(), [this](ExprId id) { return is_nullable(id); });
    return all ? kEmpty : kNothing;
  }
  return AddList(ExprKind::kAnd, std::move(flat));
}

ExprId ExprStore::Not(ExprId operand) {
  CHECK(!has_rules(operand)) << "a complement with rules";
  if (operand == kNothing) return kAnything;
  if (kind(operand) == ExprKind::kNot) return first(operand);
  const Node& node = nodes_[operand];
  return Add({ExprKind::kNot, !node.is_nullable, false, true, operand}, node.hash);
}

ExprId ExprStore::Repeat(ExprId operand, uint32_t min, uint32_t max) {
  if (max == 0 || operand == kEmpty) return kEmpty;
  if (operand == kNothing) return min == 0 ? kEmpty : kNothing;
  if (min == 1 && max == 1) return operand;
  min = is_nullable(operand) ? 0 : std::min(min, kManyTimes);
  if (kind(operand) == ExprKind::kRepeat && this->min(operand) == 0 &&
      this->max(operand) == kUnbounded)
    return operand;
  if (max == 1 && is_nullable(operand)) return operand;
  const Node& node = nodes_[operand];
  return Add({ExprKind::kRepeat, min == 0, node.has_rules, min != 0 && node.may_be_nothing, operand,
              min, max},
             Mix(node.hash, (uint64_t{min} << 32) | max));
}

ExprId ExprStore::Multiple(uint64_t divisor, uint32_t num_decimals) {
  return RemainderOf({.divisor = divisor, .num_decimals = num_decimals, .needs_digit = true});
}

ExprId ExprStore::RemainderOf(const Remainder& remainder) {
  __extension__ using Wide = unsigned __int128;
  // With zeros for the decimals that are left, and the smallest number that, added, makes a
  // multiple.
  Wide value = remainder.remainder, room = 1;
  for (uint32_t i = 0; i < remainder.num_decimals; ++i) {
    value = value * 10 % remainder.divisor;
    room = std::min(room * 10, Wide{kMaxDivisor});
  }
  const Wide missing = (remainder.divisor - value) % remainder.divisor;
  // Before the point any number of digits may come, so every multiple is in reach.
  if (remainder.after_point && missing >= room) return kNothing;
  uint64_t hash = Mix(Mix(Seed(), remainder.divisor), remainder.remainder);
  hash = Mix(hash, (uint64_t{remainder.num_decimals} << 2) |
                       (uint64_t{remainder.after_point} << 1) | uint64_t{remainder.needs_digit});
  remainders_.push_back(remainder);
  const size_t before = nodes_.size();
  const ExprId id = Add({ExprKind::kRemainder, !remainder.needs_digit && value == 0, false, false,
                         static_cast<uint32_t>(remainders_.size() - 1)},
                        hash);
  if (nodes_.size() == before) remainders_.pop_back();
  return id;
}

ExprId ExprStore::Rule(RuleId rule) {
  return Add({ExprKind::kRule, false, true, false, rule}, Mix(Seed(), rule));
}

std::vector<uint8_t> ExprStore::ByteClasses() const {
  // Bytes with the same signature are in the same sets.
  std::vector<uint64_t> signature(256);
  uint64_t key = Seed();
  const auto separate = [&](const ByteSet& bytes) {
    key = Mix(key, 0x2545f4914f6cdd1du);
    for (int byte = 0; byte < 256; ++byte) {
      if (bytes.Has(static_cast<uint8_t>(byte))) signature[byte] ^= key;
    }
  };
  for (const ByteSet& bytes : byte_sets_) separate(bytes);
  ByteSet letters;
  for (const char c : literal_pool_) letters.Add(static_cast<uint8_t>(c));
  if (!remainders_.empty()) {
    for (int digit = '0'; digit <= '9'; ++digit) letters.Add(static_cast<uint8_t>(digit));
    letters.Add('.');
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (letters.Has(static_cast<uint8_t>(byte))) separate(ByteSet{static_cast<uint8_t>(byte)});
  }
  std::vector<uint8_t> classes(256);
  std::vector<uint64_t> seen;
  for (int byte = 0; byte < 256; ++byte) {
    const auto at = std::find(seen.begin(), seen.end(), signature[byte]);
    classes[byte] = static_cast<uint8_t>(at - seen.begin());
    if (at == seen.end()) seen.push_back(signature[byte]);
  }
  return classes;
}

}  // namespace quire

// Expressions: sets of byte strings, as terms. Beside the usual operators of regular expressions
// they have intersection, complement, counted repeats, remainders of decimal numbers, and calls of
// a grammar's rules. Each term exists once (hash consing), in a normal form: equal ids mean the
// same term, and simple equalities are seen (x|x, x|nothing, repeats of one thing that overlap).
// The derivatives of an expression (derivative.h) are expressions of the same store, so the states
// of its automaton are ids. Source: Owens, Reppy, Turon, "Regular-expression derivatives
// re-examined" (2009).
//
// A store has bounds, of memory and of work. Beyond them every new term is kNothing and
// overflowed() is true: its user checks once, at the end. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "server/grammar/expr/byte_set.h"

namespace quire {

using ExprId = uint32_t;
using RuleId = uint32_t;

enum class ExprKind : uint8_t {
  kNothing,    // no string
  kEmpty,      // the empty string
  kBytes,      // one byte of a set
  kLiteral,    // two or more bytes
  kConcat,     // first, then second; first is neither a concatenation nor empty, and no repeat of
               // what second begins with
  kOr,         // at least two operands, in ascending order, none of them an alternation
  kAnd,        // likewise
  kNot,        // every byte string that first does not have
  kRepeat,     // first, min to max times
  kRemainder,  // see Multiple
  kRule,       // a string of a rule
};

inline constexpr uint32_t kUnbounded = UINT32_MAX;
// A least count that nobody comes to: with one fewer it is the same.
inline constexpr uint32_t kManyTimes = 1u << 20;

inline constexpr uint64_t kMaxDivisor = 100'000'000'000'000'000;  // 10^17

// The decimal digits that are left of a number that must be a multiple: see ExprStore::Multiple.
struct Remainder {
  uint64_t divisor = 1;
  uint64_t remainder = 0;     // of the digits before
  uint32_t num_decimals = 0;  // digits that may still come behind the point, or will after it
  bool after_point = false;
  bool needs_digit = false;  // it cannot end here: nothing, or only the point, came before

  friend bool operator==(const Remainder&, const Remainder&) = default;
};

class ExprStore {
 public:
  static constexpr ExprId kNothing = 0;
  static constexpr ExprId kEmpty = 1;
  static constexpr ExprId kAnything = 2;  // all byte strings: Not(kNothing)
  // See CountWork: a second at most.
  static constexpr uint64_t kMaxWork = 30'000'000;

  // At most `max_bytes` of memory, about.
  explicit ExprStore(size_t max_bytes = size_t{64} << 20);

  ExprId Bytes(const ByteSet& bytes);
  ExprId Byte(uint8_t byte) { return Bytes(ByteSet{byte}); }
  ExprId Literal(std::string_view text);
  ExprId WithoutFirstByte(ExprId literal);
  ExprId Concat(ExprId first, ExprId second);
  ExprId Concat(std::initializer_list<ExprId> parts);
  ExprId Or(absl::Span<const ExprId> operands);
  ExprId Or(ExprId a, ExprId b) { return Or({{a, b}}); }
  // Operands of And and Not may not contain rules: CHECKed.
  ExprId And(absl::Span<const ExprId> operands);
  ExprId And(ExprId a, ExprId b) { return And({{a, b}}); }
  ExprId Not(ExprId operand);
  // A least count above kManyTimes is kManyTimes.
  ExprId Repeat(ExprId operand, uint32_t min, uint32_t max);
  ExprId Optional(ExprId operand) { return Repeat(operand, 0, 1); }
  ExprId Star(ExprId operand) { return Repeat(operand, 0, kUnbounded); }
  // Strings of decimal digits, at least one, that may have a point and up to `num_decimals` digits
  // (at least one, if there is a point) behind it, whose value times 10^num_decimals is a multiple
  // of `divisor`, which is 1 to kMaxDivisor. Leading zeros count as digits. At most 17 decimals.
  ExprId Multiple(uint64_t divisor, uint32_t num_decimals);
  ExprId RemainderOf(const Remainder& remainder);  // kNothing if no digits make it a multiple
  ExprId Rule(RuleId rule);

  // The expression of one character, if somebody counts characters: texts are repeats of it.
  ExprId counted_character() const { return counted_character_; }
  void set_counted_character(ExprId id) { counted_character_ = id; }

  ExprKind kind(ExprId id) const { return nodes_[id].kind; }
  // Whether it has the empty string, calls of rules apart.
  bool is_nullable(ExprId id) const { return nodes_[id].is_nullable; }
  bool has_rules(ExprId id) const { return nodes_[id].has_rules; }
  // Whether it has an intersection or a complement, so that it may be without strings although it
  // is not kNothing.
  bool may_be_nothing(ExprId id) const { return nodes_[id].may_be_nothing; }
  const ByteSet& bytes(ExprId id) const { return byte_sets_[nodes_[id].a]; }
  std::string_view literal(ExprId id) const;
  ExprId first(ExprId id) const { return nodes_[id].a; }
  ExprId second(ExprId id) const { return nodes_[id].b; }
  absl::Span<const ExprId> operands(ExprId id) const;
  uint32_t min(ExprId id) const { return nodes_[id].b; }
  uint32_t max(ExprId id) const { return nodes_[id].c; }
  RuleId rule(ExprId id) const { return nodes_[id].a; }
  const Remainder& remainder(ExprId id) const { return remainders_[nodes_[id].a]; }
  // The same in every store of this process, for terms without rules; unpredictable outside it.
  uint64_t hash(ExprId id) const { return nodes_[id].hash; }

  size_t size() const { return nodes_.size(); }
  size_t num_bytes() const;
  bool overflowed() const { return overflowed_; }

  // Work: terms looked at and operands sorted, each some 10 to 50 ns. Beyond the limit, the store
  // has overflowed; at first it is kMaxWork.
  void CountWork(size_t work) {
    work_ += work;
    if (work_ > max_work_) overflowed_ = true;
  }
  uint64_t work() const { return work_; }
  void LimitWork(uint64_t more) { max_work_ = work_ + more; }

  // The classes of bytes that no expression of the store tells apart, nor a derivative of one:
  // a class for each byte. At most 256.
  std::vector<uint8_t> ByteClasses() const;

 private:
  struct Node {
    ExprKind kind;
    bool is_nullable;
    bool has_rules;
    bool may_be_nothing;
    uint32_t a = 0, b = 0, c = 0;
    uint64_t hash = 0;
  };

  ExprId Add(Node node, uint64_t content_hash);
  ExprId LiteralAt(size_t offset, size_t size);
  ExprId AddList(ExprKind kind, std::vector<ExprId> operands);
  bool IsSame(const Node& a, const Node& b) const;
  void Grow();
  ExprId MergedRepeat(ExprId first, ExprId second);
  void MergeRepeats(std::vector<ExprId>* operands);
  bool Flatten(ExprKind kind, absl::Span<const ExprId> operands, std::vector<ExprId>* flat);

  const size_t max_bytes_;
  bool overflowed_ = false;
  ExprId counted_character_ = kNothing;
  uint64_t work_ = 0, max_work_ = kMaxWork;
  std::vector<Node> nodes_;
  std::vector<ExprId> table_;  // open addressing by hash; 0 = free (kNothing is never looked up)
  std::vector<ByteSet> byte_sets_;
  std::vector<ExprId> operand_pool_;
  std::string literal_pool_;
  std::vector<Remainder> remainders_;
};

}  // namespace quire

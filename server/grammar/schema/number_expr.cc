#include "server/grammar/schema/number_expr.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace quire {

namespace {

class NumberBuilder {
 public:
  explicit NumberBuilder(ExprStore* store)
      : store_(*store),
        digit_(store_.Bytes(ByteSet::Range('0', '9'))),
        digits_(store_.Star(digit_)),
        whole_(store_.Or(store_.Byte('0'),
                         store_.Concat(store_.Bytes(ByteSet::Range('1', '9')), digits_))),
        fraction_(Fraction(store_.Repeat(digit_, 1, kUnbounded))) {}

  ExprId Signed(ExprId text) { return store_.Concat(store_.Optional(store_.Byte('-')), text); }
  ExprId whole() const { return whole_; }
  // Whole numbers as they are written: 0 has no sign.
  ExprId Whole() {
    const ExprId positive = store_.Concat(store_.Bytes(ByteSet::Range('1', '9')), digits_);
    return store_.Or(store_.Byte('0'), Signed(positive));
  }
  // Nothing, or a fraction that is zero: as such numbers are written, or however long.
  ExprId zeros() { return store_.Optional(store_.Literal(".0")); }
  ExprId all_zeros() {
    return store_.Optional(Fraction(store_.Repeat(store_.Byte('0'), 1, kUnbounded)));
  }
  ExprId any_fraction() { return store_.Optional(fraction_); }
  ExprId Exponent() {
    const ExprId sign = store_.Optional(store_.Bytes(ByteSet{'+', '-'}));
    return store_.Optional(store_.Concat({store_.Bytes(ByteSet{'e', 'E'}), sign, digit_, digits_}));
  }

  // Numbers without a sign that are at least, or at most, `bound`.
  ExprId AtLeast(const Decimal& bound, bool is_exclusive) {
    const size_t size = bound.whole.size();
    const ExprId longer = store_.Concat(
        {store_.Bytes(ByteSet::Range('1', '9')),
         store_.Repeat(digit_, static_cast<uint32_t>(size), kUnbounded), any_fraction()});
    return store_.Or(longer, SameLength(bound.whole, /*greater=*/true,
                                        FractionAtLeast(bound.fraction, is_exclusive)));
  }
  ExprId AtMost(const Decimal& bound, bool is_exclusive) {
    const size_t size = bound.whole.size();
    const ExprId same =
        SameLength(bound.whole, /*greater=*/false, FractionAtMost(bound.fraction, is_exclusive));
    if (size == 1) return same;
    const ExprId shorter = store_.Concat(store_.Bytes(ByteSet::Range('1', '9')),
                                         store_.Repeat(digit_, 0, static_cast<uint32_t>(size - 2)));
    return store_.Or(store_.Concat(store_.Or(store_.Byte('0'), shorter), any_fraction()), same);
  }
  ExprId AnySize() { return store_.Concat(whole_, any_fraction()); }

  // Numbers without a sign that are multiples of `divisor`; zeros may follow.
  ExprId MultipleOf(const Decimal& divisor, std::string* error) {
    uint64_t value = 0;
    if (!absl::SimpleAtoi(divisor.whole + divisor.fraction, &value) || value > kMaxDivisor ||
        divisor.fraction.size() > 17) {
      *error = absl::StrCat("multiples of ", ToText(divisor),
                            " are not supported: it has too many digits");
      return ExprStore::kNothing;
    }
    const uint32_t num_decimals = static_cast<uint32_t>(divisor.fraction.size());
    const ExprId multiple = store_.Multiple(value, num_decimals);
    if (num_decimals == 0) return store_.Concat(multiple, all_zeros());
    // Zeros behind the last digit change nothing: without a point they make it ten times as large.
    return store_.Concat(multiple, store_.Star(store_.Byte('0')));
  }

 private:
  ExprId Fraction(ExprId digits) { return store_.Concat(store_.Byte('.'), digits); }

  // Whole numbers with as many digits as `whole` that are greater (or smaller), with any fraction,
  // or equal, with `equal` behind them.
  ExprId SameLength(const std::string& whole, bool greater, ExprId equal) {
    ExprId result = equal;
    for (size_t i = whole.size(); i-- > 0;) {
      const char digit = whole[i];
      const char least = i == 0 && whole.size() > 1 ? '1' : '0';
      const ByteSet other =
          greater ? ByteSet::Range(digit + 1, '9') : ByteSet::Range(least, digit - 1);
      const uint32_t left = static_cast<uint32_t>(whole.size() - i - 1);
      const ExprId rest = store_.Concat(store_.Repeat(digit_, left, left), any_fraction());
      result = store_.Or(store_.Concat(store_.Byte(static_cast<uint8_t>(digit)), result),
                         store_.Concat(store_.Bytes(other), rest));
    }
    return result;
  }

  // The fractions that may follow equal whole parts.
  ExprId FractionAtLeast(const std::string& fraction, bool is_exclusive) {
    const ExprId positive = store_.Concat(
        {store_.Star(store_.Byte('0')), store_.Bytes(ByteSet::Range('1', '9')), digits_});
    if (fraction.empty()) return is_exclusive ? Fraction(positive) : any_fraction();
    ExprId result = is_exclusive ? positive : digits_;
    for (size_t i = fraction.size(); i-- > 0;) {
      const ExprId greater =
          store_.Concat(store_.Bytes(ByteSet::Range(fraction[i] + 1, '9')), digits_);
      result =
          store_.Or(store_.Concat(store_.Byte(static_cast<uint8_t>(fraction[i])), result), greater);
    }
    return Fraction(result);
  }
  ExprId FractionAtMost(const std::string& fraction, bool is_exclusive) {
    if (fraction.empty()) return is_exclusive ? ExprStore::kNothing : zeros();
    // The digits from the i-th on. A number that ends early is smaller, but not right behind the
    // point.
    ExprId result = is_exclusive ? ExprStore::kNothing : ExprStore::kEmpty;
    for (size_t i = fraction.size(); i-- > 0;) {
      const ExprId smaller =
          store_.Concat(store_.Bytes(ByteSet::Range('0', fraction[i] - 1)), digits_);
      result =
          store_.Or(store_.Concat(store_.Byte(static_cast<uint8_t>(fraction[i])), result), smaller);
      if (i > 0) result = store_.Or(ExprStore::kEmpty, result);
    }
    return store_.Optional(Fraction(result));
  }

  ExprStore& store_;
  const ExprId digit_, digits_, whole_, fraction_;
};

// Numbers without a sign between two bounds that are not negative.
ExprId Between(ExprStore* store, NumberBuilder* build, const NumberBound* min,
               const NumberBound* max) {
  ExprId result = build->AnySize();
  if (min != nullptr) result = build->AtLeast(min->value, min->is_exclusive);
  if (max == nullptr) return result;
  const ExprId at_most = build->AtMost(max->value, max->is_exclusive);
  return min == nullptr ? at_most : store->And(result, at_most);
}

NumberBound Negated(NumberBound bound) {
  if (!bound.value.is_zero()) bound.value.is_negative = !bound.value.is_negative;
  return bound;
}

// Both halves of the number line.
ExprId WithinBounds(ExprStore* store, NumberBuilder* build, const NumberCell& cell) {
  const auto is_below_zero = [](const NumberBound& bound) { return bound.value.is_negative; };
  ExprId result = ExprStore::kNothing;
  if (!cell.max ||
      !(is_below_zero(*cell.max) || (cell.max->value.is_zero() && cell.max->is_exclusive))) {
    const NumberBound* const min = cell.min && !is_below_zero(*cell.min) ? &*cell.min : nullptr;
    result = Between(store, build, min, cell.max ? &*cell.max : nullptr);
  }
  if (!cell.min || is_below_zero(*cell.min)) {
    std::optional<NumberBound> min, max;
    if (cell.max && (is_below_zero(*cell.max) || cell.max->value.is_zero()))
      min = Negated(*cell.max);
    if (cell.min) max = Negated(*cell.min);
    const ExprId negative = Between(store, build, min ? &*min : nullptr, max ? &*max : nullptr);
    result = store->Or(result, store->Concat(store->Byte('-'), negative));
  }
  return result;
}

}  // namespace

bool IsEmpty(const NumberCell& cell) {
  if (!cell.min || !cell.max) return false;
  const int order = Compare(cell.min->value, cell.max->value);
  if (order > 0) return true;
  if (order < 0) return false;
  return cell.min->is_exclusive || cell.max->is_exclusive ||
         (cell.kind == NumberCell::Kind::kWhole && !cell.min->value.is_integer()) ||
         (cell.kind == NumberCell::Kind::kWithFraction && cell.min->value.is_integer());
}

ExprId NumberExpr(ExprStore* store, const NumberCell& cell, std::string* error) {
  if (IsEmpty(cell)) return ExprStore::kNothing;
  NumberBuilder build(store);
  const ExprId whole = build.Whole();
  if (!cell.min && !cell.max && cell.multiple_of.empty() && cell.not_multiple_of.empty()) {
    if (cell.kind == NumberCell::Kind::kWhole) return whole;
    if (cell.kind == NumberCell::Kind::kAny) {
      return build.Signed(store->Concat(build.AnySize(), build.Exponent()));
    }
  }
  std::vector<ExprId> all;
  if (cell.min || cell.max) {
    all.push_back(WithinBounds(store, &build, cell));
  } else {
    all.push_back(build.Signed(build.AnySize()));
  }
  if (cell.kind == NumberCell::Kind::kWhole) all.push_back(whole);
  if (cell.kind == NumberCell::Kind::kWithFraction) {
    all.push_back(store->Not(build.Signed(store->Concat(build.whole(), build.all_zeros()))));
  }
  for (const Decimal& divisor : cell.multiple_of)
    all.push_back(build.Signed(build.MultipleOf(divisor, error)));
  for (const Decimal& divisor : cell.not_multiple_of) {
    all.push_back(store->Not(build.Signed(build.MultipleOf(divisor, error))));
  }
  return store->And(all);
}

}  // namespace quire

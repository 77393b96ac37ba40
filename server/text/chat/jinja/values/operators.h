// Python's operators on values: truth, equality, order, membership, iteration and arithmetic.
// Errors are Python's TypeErrors and overflows. One render, one thread.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/text/chat/jinja/values/runtime.h"
#include "server/text/chat/jinja/values/value.h"

namespace quire::jinja {

bool IsTrue(const Value& value);

// ==, uncharged: for scalars, or after the caller has charged the smaller weight().
bool Equals(const Value& a, const Value& b);

// ==, charged.
absl::StatusOr<bool> CheckedEquals(Runtime& runtime, const Value& a, const Value& b);

// Negative, zero or positive as a is less than, equal to or greater than b; an error if Python has
// no order for them.
absl::StatusOr<int> Compare(Runtime& runtime, const Value& a, const Value& b);

// item in container
absl::StatusOr<bool> Contains(Runtime& runtime, const Value& container, const Value& item);

// The items of `for`: list items, dict keys, characters. Uses up a generator. Undefined has none.
absl::StatusOr<std::shared_ptr<const List>> Iterate(Runtime& runtime, const Value& value);

// len()
absl::StatusOr<size_t> Length(const Value& value);

// May be a key of a dict: the scalars.
absl::Status CheckHashable(const Value& value);

enum class BinaryOperator { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };

absl::StatusOr<Value> Apply(Runtime& runtime, BinaryOperator op, const Value& a, const Value& b);

absl::StatusOr<Value> Negate(const Value& value);

// text % value and the format filter: %s %r %d %i %x %f %e %g %% with flags, width and precision.
absl::StatusOr<Value> PercentFormat(Runtime& runtime, const Text& format, const Value& values);

// "'x' is undefined", or the name of something else that was not found.
absl::Status UndefinedError(const Value& value);

}  // namespace quire::jinja

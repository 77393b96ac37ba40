// The generated facts of Unicode behind unicode.h. Constant data; any thread.
// Made by tools/tokenizer/make_unicode_tables.py, which says where they come from.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire {

// Code points first..last have the CharClass bits `classes`.
struct ClassRange {
  uint32_t first;
  uint32_t last;
  uint8_t classes;
};
extern const ClassRange kClassRanges[];
extern const size_t kNumClassRanges;

// Code points first..last may be unknown to a library older than Unicode 16.0 (or classed
// differently by it); `stand_in` has the same general category and UTF-8 length, is Han when they
// are, and is old.
struct StandInRange {
  uint32_t first;
  uint32_t last;
  uint32_t stand_in;
};
extern const StandInRange kStandInRanges[];  // sorted
extern const size_t kNumStandInRanges;

// Code points first..last are newer than the normal forms of the reference (Unicode 9.0), which
// neither reorder, compose nor decompose them.
struct InertRange {
  uint32_t first;
  uint32_t last;
};
extern const InertRange kInertRanges[];  // sorted
extern const size_t kNumInertRanges;

// Code points first..last are capitals newer than Unicode 14.0; their small letters are `offset`
// further on.
struct CapitalRange {
  uint32_t first;
  uint32_t last;
  int32_t offset;
};
extern const CapitalRange kCapitalRanges[];  // sorted
extern const size_t kNumCapitalRanges;

}  // namespace quire

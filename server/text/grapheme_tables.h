// The generated facts of Unicode behind graphemes.h. Constant data; any thread.
// Made by tools/tokenizer/make_grapheme_tables.py, which says where they come from.
#pragma once

#include <cstddef>
#include <cstdint>

#include "server/text/graphemes.h"

namespace quire {

// Code points first..last have the class.
struct GraphemeRange {
  uint32_t first;
  uint32_t last;
  GraphemeClass grapheme_class;
};
extern const GraphemeRange kGraphemeRanges[];  // sorted
extern const size_t kNumGraphemeRanges;

}  // namespace quire

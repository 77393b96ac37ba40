// The characters whose upper or title case is several characters: ligatures, sharp s, Greek letters
// with a subscript. Constant data; any thread. Made by tools/tokenizer/make_case_table.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace quire {

struct SpecialCase {
  int32_t code;
  std::string_view upper;
  std::string_view title;
};
extern const SpecialCase kSpecialCases[];  // sorted
extern const size_t kNumSpecialCases;

}  // namespace quire

// A set of bytes.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <initializer_list>

namespace quire {

class ByteSet {
 public:
  constexpr ByteSet() = default;
  constexpr ByteSet(std::initializer_list<uint8_t> bytes) {
    for (const uint8_t byte : bytes) Add(byte);
  }
  // `first` to `last`, both included.
  static constexpr ByteSet Range(int first, int last) {
    ByteSet set;
    for (int byte = first; byte <= last; ++byte) set.Add(static_cast<uint8_t>(byte));
    return set;
  }

  constexpr void Add(uint8_t byte) { words_[byte >> 6] |= uint64_t{1} << (byte & 63); }
  constexpr bool Has(uint8_t byte) const { return (words_[byte >> 6] >> (byte & 63)) & 1; }
  constexpr bool empty() const { return (words_[0] | words_[1] | words_[2] | words_[3]) == 0; }
  constexpr int size() const {
    int count = 0;
    for (const uint64_t word : words_) count += std::popcount(word);
    return count;
  }
  // The smallest byte of a set that is not empty.
  constexpr uint8_t first() const {
    for (int i = 0; i < 4; ++i) {
      if (words_[i] != 0) return static_cast<uint8_t>(64 * i + std::countr_zero(words_[i]));
    }
    return 0;
  }
  constexpr const std::array<uint64_t, 4>& words() const { return words_; }

  friend constexpr ByteSet operator|(ByteSet a, const ByteSet& b) {
    for (int i = 0; i < 4; ++i) a.words_[i] |= b.words_[i];
    return a;
  }
  friend constexpr ByteSet operator&(ByteSet a, const ByteSet& b) {
    for (int i = 0; i < 4; ++i) a.words_[i] &= b.words_[i];
    return a;
  }
  // The bytes of `a` that `b` lacks.
  friend constexpr ByteSet operator-(ByteSet a, const ByteSet& b) {
    for (int i = 0; i < 4; ++i) a.words_[i] &= ~b.words_[i];
    return a;
  }
  friend constexpr bool operator==(const ByteSet&, const ByteSet&) = default;

 private:
  std::array<uint64_t, 4> words_ = {};
};

}  // namespace quire

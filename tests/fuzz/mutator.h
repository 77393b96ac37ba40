// Mutator: makes the input of one run out of the seeds. The same seed and run always make the same
// input, whatever ran before, so that every failure can be repeated by itself. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace quire::fuzz {

inline constexpr size_t kMaxInputBytes = size_t{1} << 18;

class Mutator {
 public:
  // `seeds` must not be empty; the dictionary is added to words that many formats share.
  Mutator(std::vector<std::string> seeds, std::vector<std::string> dictionary);

  // The input of run `run`: the seeds themselves first, then seeds with one to eight changes. At
  // most kMaxInputBytes.
  std::string Input(uint64_t seed, uint64_t run);

 private:
  void Change(std::string* input);
  void FlipBit(std::string* input);
  void SetByte(std::string* input);
  void SetInteger(std::string* input);
  void InsertBytes(std::string* input);
  void EraseRange(std::string* input);
  void RepeatRange(std::string* input);
  void MoveRange(std::string* input);
  void Splice(std::string* input);
  void InsertWord(std::string* input);
  void ReplaceNumber(std::string* input);
  void ReplaceJsonValue(std::string* input);

  // 0 .. limit - 1; 0 when the limit is 0.
  size_t Below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  // A range of `input`, mostly a short one.
  struct Range {
    size_t begin;
    size_t size;
  };
  Range SomeRange(const std::string& input);
  const std::string& SomeWord() { return words_[Below(words_.size())]; }

  std::vector<std::string> seeds_;
  std::vector<std::string> words_;
  std::mt19937_64 random_;
};

}  // namespace quire::fuzz

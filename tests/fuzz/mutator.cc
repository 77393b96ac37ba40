#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>
#include <utility>

#include "kernels/base/check.h"

namespace quire::fuzz {
namespace {

// Where sizes and counts go wrong: around the powers of two that types end at, and what is no
// number of the type that was asked for.
constexpr const char* kNumbers[] = {
    "0",
    "-0",
    "-1",
    "1",
    "0.5",
    "1e-320",
    "255",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "4294967297",
    "1e19",
    "1e300",
    "1e999",
    "-1e999",
    "3.0",
    "1000000007",
    "9007199254740993",
    "1099511627776",
    "-2147483649",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211457",
};

constexpr const char* kJsonValues[] = {
    "null",        "true",
    "false",       "0",
    "-1",          "1.5",
    "\"\"",        "\"x\"",
    "[]",          "{}",
    "[[]]",        "[0]",
    "[-1]",        "[4294967296,4294967296]",
    "[\"a\"]",     "{\"a\":{}}",
    "\"\\ud800\"", "\"\\u0000\"",
    "1e400",       "[null]",
};

// JSON's punctuation, pieces of UTF-8 that are wrong or awkward, and control bytes.
constexpr std::string_view kWords[] = {
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "[[[[[[[[",
    "{\"a\":",
    "null",
    "NaN",
    "//",
    "\\u0000",
    "\\ud83d",
    "\xEF\xBB\xBF",
    "\xC0\x80",
    "\xED\xA0\x80",
    "\xF4\x90\x80\x80",
    "\xFF",
    "\x80",
    "\xF0\x9F\x98\x80",
    "\xCC\x81",
    "\xE2\x80\x8D",
    "\xEF\xBF\xBD",
    "\r\n",
    " ",
    "\t",
    "\x7F",
};

}  // namespace

Mutator::Mutator(std::vector<std::string> seeds, std::vector<std::string> dictionary)
    : seeds_(std::move(seeds)), words_(std::move(dictionary)) {
  CHECK(!seeds_.empty());
  words_.insert(words_.end(), std::begin(kWords), std::end(kWords));
  words_.push_back(std::string(1, '\0'));
}

std::string Mutator::Input(uint64_t seed, uint64_t run) {
  if (run < seeds_.size()) return seeds_[run];
  std::seed_seq mixed{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                      static_cast<uint32_t>(run), static_cast<uint32_t>(run >> 32)};
  random_.seed(mixed);
  std::string input = seeds_[Below(seeds_.size())];
  const size_t num_changes = 1 + Below(Below(8) + 1);
  for (size_t i = 0; i < num_changes; ++i) Change(&input);
  if (input.size() > kMaxInputBytes) input.resize(kMaxInputBytes);
  return input;
}

void Mutator::Change(std::string* input) {
  using Kind = void (Mutator::*)(std::string*);
  static constexpr Kind kKinds[] = {
      &Mutator::FlipBit,          &Mutator::SetByte,       &Mutator::SetInteger,
      &Mutator::InsertBytes,      &Mutator::EraseRange,    &Mutator::RepeatRange,
      &Mutator::MoveRange,        &Mutator::Splice,        &Mutator::InsertWord,
      &Mutator::InsertWord,       &Mutator::ReplaceNumber, &Mutator::ReplaceNumber,
      &Mutator::ReplaceJsonValue,
  };
  (this->*kKinds[Below(std::size(kKinds))])(input);
}

Mutator::Range Mutator::SomeRange(const std::string& input) {
  const size_t begin = Below(input.size());
  const size_t longest = Below(4) == 0 ? input.size() - begin : size_t{16};
  return {begin, std::min(input.size() - begin, 1 + Below(longest))};
}

void Mutator::FlipBit(std::string* input) {
  if (!input->empty()) (*input)[Below(input->size())] ^= static_cast<char>(1 << Below(8));
}

void Mutator::SetByte(std::string* input) {
  if (!input->empty()) (*input)[Below(input->size())] = static_cast<char>(random_());
}

// A little-endian integer at an extreme of its type.
void Mutator::SetInteger(std::string* input) {
  const size_t num_bytes = size_t{1} << Below(4);
  if (input->size() < num_bytes) return;
  const uint64_t highest = ~uint64_t{0} >> (64 - 8 * num_bytes);
  const uint64_t extremes[] = {0, 1, highest, highest - 1, highest / 2, highest / 2 + 1};
  uint64_t value = extremes[Below(std::size(extremes))];
  const size_t begin = Below(input->size() - num_bytes + 1);
  for (size_t i = 0; i < num_bytes; ++i, value >>= 8) {
    (*input)[begin + i] = static_cast<char>(value & 0xFF);
  }
}

void Mutator::InsertBytes(std::string* input) {
  std::string bytes;
  for (size_t i = 1 + Below(8); i > 0; --i) bytes += static_cast<char>(random_());
  input->insert(Below(input->size() + 1), bytes);
}

void Mutator::EraseRange(std::string* input) {
  const Range range = SomeRange(*input);
  input->erase(range.begin, range.size);
}

// Mostly a few times; now and then often enough for a nesting bomb.
void Mutator::RepeatRange(std::string* input) {
  const Range range = SomeRange(*input);
  const std::string piece = input->substr(range.begin, range.size);
  const size_t times = 1 + Below(size_t{1} << Below(Below(8) == 0 ? 16 : 4));
  std::string repeated;
  for (size_t i = 0; i < times && repeated.size() < kMaxInputBytes / 2; ++i) repeated += piece;
  input->insert(range.begin, repeated);
}

void Mutator::MoveRange(std::string* input) {
  const Range range = SomeRange(*input);
  const std::string piece = input->substr(range.begin, range.size);
  input->erase(range.begin, range.size);
  input->insert(Below(input->size() + 1), piece);
}

// The start of this input and the end of another.
void Mutator::Splice(std::string* input) {
  const std::string& other = seeds_[Below(seeds_.size())];
  input->resize(Below(input->size() + 1));
  input->append(other, Below(other.size() + 1));
}

void Mutator::InsertWord(std::string* input) {
  const std::string& word = SomeWord();
  const size_t begin = Below(input->size() + 1);
  if (Below(2) == 0) input->erase(begin, word.size());
  input->insert(begin, word);
}

// A number in the text becomes another.
void Mutator::ReplaceNumber(std::string* input) {
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  const auto start = input->begin() + static_cast<ptrdiff_t>(Below(input->size()));
  const auto begin = std::find_if(start, input->end(), is_digit);
  const auto end = std::find_if_not(begin, input->end(), is_digit);
  if (begin == end) return;
  input->replace(begin, end, kNumbers[Below(std::size(kNumbers))]);
}

// Replaces the text between two of JSON's marks by another value.
void Mutator::ReplaceJsonValue(std::string* input) {
  size_t begin = input->find_first_of(":,[", Below(input->size()));
  if (begin == input->npos) return;
  ++begin;
  const size_t end = std::min(input->find_first_of(",]}", begin), input->size());
  input->replace(begin, end - begin, kJsonValues[Below(std::size(kJsonValues))]);
}

}  // namespace quire::fuzz

// Bounds and multiples of numbers, exhaustively for small decimals; decimals by themselves.
#include <cmath>
#include <cstdlib>
#include <random>

#include "absl/strings/str_format.h"
#include "server/grammar/schema/decimal.h"
#include "server/grammar/schema/number_expr.h"
#include "tests/server/grammar/regex/matches.h"
#include "tests/server/grammar/schema/schema_expectations.h"

namespace quire {
namespace {

TEST(DecimalTest, Parses) {
  const auto text = [](const std::string& number) {
    const std::optional<Decimal> decimal = ParseDecimal(number);
    return decimal ? ToText(*decimal) : "none";
  };
  const std::pair<const char*, const char*> cases[] = {
      {"0", "0"},         {"-0", "0"},         {"0.000", "0"},
      {"-0.0e5", "0"},    {"12", "12"},        {"-12.50", "-12.5"},
      {"1e3", "1000"},    {"1E+3", "1000"},    {"1.5e1", "15"},
      {"1.25e1", "12.5"}, {"1e-3", "0.001"},   {"123e-2", "1.23"},
      {"0.001e3", "1"},   {"0.0015e3", "1.5"}, {"100e-2", "1"},
      {"1e400", "none"},  {"1e-401", "none"},  {"1e99999999999999999999", "none"},
      {"0e999", "0"},     {"-5e-1", "-0.5"}};
  for (const auto& [number, expected] : cases) EXPECT_EQ(text(number), expected) << number;
  EXPECT_EQ(text("1e399"), "1" + std::string(399, '0'));
  EXPECT_EQ(text(std::string(401, '1')), "none");
  EXPECT_TRUE(ParseDecimal("5.0")->is_integer());
  EXPECT_FALSE(ParseDecimal("5.1")->is_integer());
  EXPECT_TRUE(ParseDecimal("-0")->is_zero());
}

TEST(DecimalTest, ComparesLikeNumbers) {
  std::vector<std::string> texts;
  for (const char* const text : {"0", "0.1", "0.09", "0.11", "0.5", "1", "1.5", "9", "9.99", "10",
                                 "10.01", "99", "100", "1e5"}) {
    texts.push_back(text);
    texts.push_back(absl::StrCat("-", text));
  }
  for (const std::string& a : texts) {
    for (const std::string& b : texts) {
      const double x = std::strtod(a.c_str(), nullptr), y = std::strtod(b.c_str(), nullptr);
      const int order = Compare(*ParseDecimal(a), *ParseDecimal(b));
      EXPECT_EQ(order < 0, x < y) << a << " " << b;
      EXPECT_EQ(order > 0, x > y) << a << " " << b;
    }
  }
}

struct Candidate {
  std::string text;
  int64_t thousandths;
  bool is_written_whole;
};

// Every number with one of the whole parts and up to `max_decimals` decimals, of both signs.
std::vector<Candidate> AllNumbers(const std::vector<int>& wholes, int max_decimals) {
  std::vector<Candidate> all;
  for (const std::string& sign : {std::string(), std::string("-")}) {
    for (const int whole : wholes) {
      all.push_back({absl::StrCat(sign, whole), whole * 1000, true});
      for (int decimals = 1, scale = 10; decimals <= max_decimals; ++decimals, scale *= 10) {
        for (int fraction = 0; fraction < scale; ++fraction) {
          all.push_back({absl::StrFormat("%s%d.%0*d", sign, whole, decimals, fraction),
                         whole * 1000 + fraction * (1000 / scale), false});
        }
      }
    }
  }
  for (Candidate& one : all) {
    if (one.text[0] == '-') one.thousandths = -one.thousandths;
  }
  return all;
}

struct Bounds {
  std::optional<int> min, max;  // hundredths
  bool min_is_exclusive = false, max_is_exclusive = false;
};

NumberBound BoundOf(int hundredths, bool is_exclusive) {
  return {*ParseDecimal(absl::StrFormat("%s%d.%02d", hundredths < 0 ? "-" : "",
                                        std::abs(hundredths) / 100, std::abs(hundredths) % 100)),
          is_exclusive};
}

std::string Describe(const Bounds& bounds) {
  return absl::StrCat(
      bounds.min_is_exclusive ? "(" : "[", bounds.min ? absl::StrCat(*bounds.min) : "-inf", ", ",
      bounds.max ? absl::StrCat(*bounds.max) : "inf", bounds.max_is_exclusive ? ")" : "]", "/100");
}

void CheckBounds(const Bounds& bounds, NumberCell::Kind kind,
                 const std::vector<Candidate>& numbers) {
  NumberCell cell = {.kind = kind};
  if (bounds.min) cell.min = BoundOf(*bounds.min, bounds.min_is_exclusive);
  if (bounds.max) cell.max = BoundOf(*bounds.max, bounds.max_is_exclusive);
  ExprStore store;
  std::string error;
  const ExprId expr = NumberExpr(&store, cell, &error);
  ASSERT_EQ(error, "");
  for (const Candidate& number : numbers) {
    const int64_t value = number.thousandths;
    bool is_valid = true;
    if (bounds.min)
      is_valid = is_valid &&
                 (bounds.min_is_exclusive ? value > *bounds.min * 10 : value >= *bounds.min * 10);
    if (bounds.max)
      is_valid = is_valid &&
                 (bounds.max_is_exclusive ? value < *bounds.max * 10 : value <= *bounds.max * 10);
    if (kind == NumberCell::Kind::kWhole) is_valid = is_valid && number.is_written_whole;
    const bool matches = Matches(&store, expr, number.text);
    // A bound that is hit exactly is written in the shortest way, or with one zero.
    const bool may_be_stricter =
        number.text.ends_with("0") && number.text.find('.') != std::string::npos &&
        ((bounds.min && value == *bounds.min * 10) || (bounds.max && value == *bounds.max * 10));
    // A zero has no sign where numbers are whole or bounded.
    const bool is_signed_zero = value == 0 && number.text.starts_with("-");
    if (is_valid && (may_be_stricter || is_signed_zero) && !matches) continue;
    ASSERT_EQ(matches, is_valid) << Describe(bounds) << ": " << number.text;
  }
}

TEST(NumbersTest, EveryPairOfSmallBounds) {
  const std::vector<Candidate> numbers = AllNumbers({0, 1, 9, 10, 11}, 2);
  std::vector<std::optional<int>> ends = {std::nullopt};
  for (const int end : {0, 1, 10, 99, 100, 150, 950, 999, 1000, 1001}) {
    ends.push_back(end);
    ends.push_back(-end);
  }
  for (const std::optional<int> min : ends) {
    for (const std::optional<int> max : ends) {
      for (int exclusive = 0; exclusive < 4; ++exclusive) {
        const Bounds bounds = {min, max, (exclusive & 1) != 0, (exclusive & 2) != 0};
        for (const auto kind : {NumberCell::Kind::kAny, NumberCell::Kind::kWhole})
          CheckBounds(bounds, kind, numbers);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(NumbersTest, BoundsOfSeveralDigits) {
  constexpr uint32_t kSeed = 20261129;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 300; ++round) {
    const int64_t min = static_cast<int64_t>(random() % 4'000'000) - 2'000'000;
    const int64_t max = min + static_cast<int64_t>(random() % 1'000'000);
    ExprStore store;
    std::string error;
    const ExprId expr = NumberExpr(&store,
                                   {.kind = NumberCell::Kind::kWhole,
                                    .min = NumberBound{*ParseDecimal(absl::StrCat(min))},
                                    .max = NumberBound{*ParseDecimal(absl::StrCat(max))}},
                                   &error);
    for (const int64_t value :
         {min, max, min - 1, max + 1, (min + max) / 2, min * 10, max * 10, -min, -max, int64_t{0},
          static_cast<int64_t>(random() % 4'000'000) - 2'000'000}) {
      ASSERT_EQ(Matches(&store, expr, absl::StrCat(value)), value >= min && value <= max)
          << value << " in [" << min << ", " << max << "], seed " << kSeed;
    }
  }
}

TEST(NumbersTest, EverySmallMultiple) {
  const std::vector<Candidate> numbers = AllNumbers({0, 1, 2, 3, 7, 12, 30, 31, 40}, 2);
  // Divisors in thousandths.
  for (const int divisor :
       {10, 20, 30, 100, 250, 300, 500, 1000, 1500, 2000, 3000, 7000, 10000, 12000}) {
    const Decimal decimal =
        *ParseDecimal(absl::StrFormat("%d.%03d", divisor / 1000, divisor % 1000));
    ExprStore store;
    std::string error;
    const ExprId multiple = NumberExpr(&store, {.multiple_of = {decimal}}, &error);
    const ExprId other = NumberExpr(&store, {.not_multiple_of = {decimal}}, &error);
    const ExprId bounded = NumberExpr(&store,
                                      {.min = NumberBound{*ParseDecimal("-7.5")},
                                       .max = NumberBound{*ParseDecimal("31.2"), true},
                                       .multiple_of = {decimal}},
                                      &error);
    ASSERT_EQ(error, "");
    for (const Candidate& number : numbers) {
      const bool is_multiple = number.thousandths % divisor == 0;
      ASSERT_EQ(Matches(&store, multiple, number.text), is_multiple)
          << number.text << " of " << ToText(decimal);
      ASSERT_EQ(Matches(&store, other, number.text), !is_multiple)
          << number.text << " of " << ToText(decimal);
      const bool is_inside = number.thousandths > -7500 && number.thousandths < 31200;
      if (number.thousandths == -7500) continue;
      ASSERT_EQ(Matches(&store, bounded, number.text), is_multiple && is_inside)
          << number.text << " of " << ToText(decimal);
    }
  }
}

TEST(NumbersTest, Keywords) {
  ExpectTexts(R"({"minimum": 1, "maximum": 5})", {"1", "5", "3.25", "4.999", "\"a\"", "1.0"},
              {"0", "5.1", "-3", "0.99", "10"});
  ExpectTexts(R"({"type": "number", "exclusiveMinimum": 1, "exclusiveMaximum": 5})",
              {"1.001", "4.99", "2"}, {"1", "5", "1.0", "5.0"});
  ExpectTexts(R"({"type": "number", "minimum": 1, "exclusiveMinimum": 2})", {"2.5"}, {"1", "2"});
  ExpectTexts(R"({"type": "number", "minimum": 3, "exclusiveMinimum": 2})", {"3"}, {"2.5"});
  ExpectTexts(R"({"type": "number", "minimum": -1.5, "maximum": -0.25})", {"-1.5", "-0.25", "-1"},
              {"-1.51", "-0.24", "0", "1"});
  ExpectTexts(R"({"type": "integer", "minimum": -128, "maximum": 127})", {"-128", "0", "127"},
              {"128", "-129", "1270", "0.5"});
  ExpectTexts(R"({"type": "integer", "minimum": 0.5, "maximum": 2.5})", {"1", "2"},
              {"0", "3", "1.5"});
  ExpectTexts(R"({"type": "integer", "minimum": 9223372036854775808})",
              {"9223372036854775808", "99999999999999999999"}, {"9223372036854775807", "0"});
  ExpectTexts(R"({"type": "number", "minimum": 1e20})", {"100000000000000000000"},
              {"99999999999999999999"});
  ExpectTexts(R"({"type": "number", "maximum": 1e-3})", {"0.001", "0.0005", "0", "-1"},
              {"0.0011", "0.002"});
  ExpectTexts(R"({"type": "integer", "multipleOf": 3})", {"0", "3", "-9", "123"},
              {"1", "10", "3.0"});
  ExpectTexts(R"({"type": "number", "multipleOf": 0.01})",
              {"1", "1.5", "19.99", "-0.01", "0.10", "1.000"}, {"0.001", "1.005"});
  ExpectTexts(R"({"type": "number", "multipleOf": 0.1})", {"6000.0", "0.1", "6000", "12.30"},
              {"0.05"});
  ExpectTexts(R"({"type": "number", "multipleOf": 1})", {"6000.0", "6000"}, {"6000.5"});
  ExpectTexts(R"({"type": "number", "multipleOf": 3})", {"3", "6.0", "0.0"}, {"4", "4.5", "3.1"});
  ExpectTexts(R"({"type": "integer", "multipleOf": 0.5})", {"1", "7"}, {"0.5"});
  ExpectTexts(
      R"({"type": "integer", "allOf": [{"multipleOf": 4}, {"multipleOf": 6}], "minimum": 1})",
      {"12", "24"}, {"4", "6", "0"});
  ExpectNothing(R"({"type": "integer", "multipleOf": 10, "minimum": 1, "maximum": 9})");
  ExpectNothing(R"({"type": "number", "minimum": 2, "maximum": 1})");
  ExpectNothing(R"({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2})");
  ExpectError(R"({"multipleOf": 0})", kWrong, "#/multipleOf", "greater than 0");
  ExpectError(R"({"items": {"multipleOf": -1}})", kWrong, "#/items/multipleOf", "greater than 0");
  ExpectError(R"({"properties": {"a": {"minimum": "1"}}})", kWrong, "#/properties/a/minimum",
              "number");
  ExpectError(R"({"properties": {"a": {"type": "number", "multipleOf": 1.0000000000000000001}}})",
              kUnsupported, "#/properties/a", "too many digits");
}

}  // namespace
}  // namespace quire

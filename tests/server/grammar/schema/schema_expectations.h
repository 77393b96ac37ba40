// Which texts a schema accepts, said in one line: for tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/grammar/schema/compiled_schema.h"

namespace quire {

using JsonTexts = std::vector<std::string_view>;

// The schema accepts the first texts and none of the others.
inline void ExpectTexts(std::string_view schema, const JsonTexts& valid, const JsonTexts& invalid) {
  const absl::StatusOr<CompiledSchema> compiled = CompiledSchema::Create(schema);
  ASSERT_TRUE(compiled.ok()) << schema << ": " << compiled.status();
  for (const std::string_view text : valid) {
    const CompiledSchema::Verdict verdict = compiled->Judge(text);
    EXPECT_TRUE(verdict.is_valid) << schema << "\nstops " << text << "\nafter "
                                  << text.substr(0, verdict.length);
  }
  for (const std::string_view text : invalid)
    EXPECT_FALSE(compiled->Accepts(text)) << schema << "\naccepts " << text;
}

// No value is valid, which a compiler says rather than let a model begin.
inline void ExpectNothing(std::string_view schema) {
  const absl::StatusOr<CompiledSchema> compiled = CompiledSchema::Create(schema);
  ASSERT_TRUE(compiled.ok()) << schema << ": " << compiled.status();
  EXPECT_TRUE(compiled->is_empty()) << schema << " has values";
}

// The schema's error begins with the place in the schema and has `what` in it.
inline void ExpectError(std::string_view schema, absl::StatusCode code, const std::string& place,
                        const std::string& what) {
  const absl::Status status = CompiledSchema::Create(schema).status();
  EXPECT_EQ(status.code(), code) << schema << ": " << status;
  EXPECT_THAT(std::string(status.message()), testing::StartsWith(absl::StrCat(place, ": ")))
      << schema;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(what)) << schema;
}

inline constexpr auto kWrong = absl::StatusCode::kInvalidArgument;
inline constexpr auto kUnsupported = absl::StatusCode::kUnimplemented;
inline constexpr auto kTooMuch = absl::StatusCode::kResourceExhausted;

}  // namespace quire

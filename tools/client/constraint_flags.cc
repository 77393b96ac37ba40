#include "tools/client/constraint_flags.h"

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "engine/json/parse_json.h"
#include "server/text/utf8.h"
#include "tools/client/text_file.h"

namespace quire::client {

namespace {

absl::Status WrongUse(const std::string& problem) { return absl::InvalidArgumentError(problem); }

absl::Status CheckUtf8(const char* flag, const std::string& text) {
  return IsValidUtf8(text) ? absl::OkStatus() : WrongUse(absl::StrCat(flag, " is not UTF-8"));
}

absl::StatusOr<std::string> ReadFileOf(const char* flag, const std::string& path,
                                       const char* kind) {
  absl::StatusOr<std::string> text = ReadTextFile(path, kind);
  if (!text.ok()) return WrongUse(absl::StrCat(flag, " ", text.status().message()));
  if (!IsValidUtf8(*text)) return WrongUse(absl::StrCat(flag, " ", path, ": is not UTF-8"));
  return text;
}

// At most one kind of constraint.
absl::Status CheckOne(const ConstraintFlags& flags) {
  std::vector<const char*> given;
  if (flags.schema_file) given.push_back("--json-schema");
  if (flags.regex) given.push_back("--regex");
  if (flags.grammar_file) given.push_back("--grammar");
  if (!flags.choices.empty()) given.push_back("--choice");
  if (given.size() < 2) return absl::OkStatus();
  return WrongUse(
      absl::StrCat(given[0], " and ", given[1], " contradict each other; give one of them"));
}

}  // namespace

void AddConstraintFlags(CLI::App& command, ConstraintFlags* flags) {
  const std::string group = "Constraint";
  command
      .add_option("--json-schema", flags->schema_file,
                  "File with a JSON Schema: the answer is JSON that it allows")
      ->type_name("FILE")
      ->group(group);
  command.add_option("--regex", flags->regex, "Pattern that the whole answer matches")
      ->type_name("PATTERN")
      ->group(group);
  command
      .add_option("--grammar", flags->grammar_file,
                  "File with a grammar (GBNF or Lark) that the answer follows")
      ->type_name("FILE")
      ->group(group);
  command.add_option("--choice", flags->choices, "The answer is one of these; may be repeated")
      ->allow_extra_args(false)
      ->group(group);
}

absl::Status ApplyConstraintFlags(const ConstraintFlags& flags, v1::GenerateRequest* request) {
  if (absl::Status status = CheckOne(flags); !status.ok()) return status;
  if (flags.schema_file) {
    auto schema = ReadFileOf("--json-schema", *flags.schema_file, "a JSON file");
    if (!schema.ok()) return schema.status();
    if (!IsJson(*schema)) {
      return WrongUse(absl::StrCat("--json-schema ", *flags.schema_file, ": is not JSON"));
    }
    request->set_json_schema(*std::move(schema));
  } else if (flags.regex) {
    if (absl::Status status = CheckUtf8("--regex", *flags.regex); !status.ok()) return status;
    request->set_regex(*flags.regex);
  } else if (flags.grammar_file) {
    auto grammar = ReadFileOf("--grammar", *flags.grammar_file, "a file with a grammar");
    if (!grammar.ok()) return grammar.status();
    request->set_grammar(*std::move(grammar));
  }
  for (const std::string& choice : flags.choices) {
    if (absl::Status status = CheckUtf8("--choice", choice); !status.ok()) return status;
    request->mutable_choice()->add_choices(choice);
  }
  return absl::OkStatus();
}

}  // namespace quire::client

// quire-bench constraints: how many real JSON schemas are compiled, whether their instances are
// taken and refused, and how long that takes. No model and no server; one thread.

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/grammar/constraint/constraint_compiler.h"
#include "server/grammar/match/token_matcher.h"
#include "server/text/json_tree.h"
#include "server/text/tokenizer/tokenizer.h"
#include "tools/bench/command_line.h"
#include "tools/bench/commands.h"
#include "tools/bench/constraints/schema_sample.h"
#include "tools/bench/failure.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/result_file.h"
#include "tools/bench/run_header.h"
#include "tools/bench/statistics.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;
using MicrosClock = std::chrono::steady_clock;

// In this order: the end of an answer in well-known vocabularies.
constexpr const char* kEndNames[] = {"</s>",       "<|im_end|>",      "<|return|>",
                                     "<|eot_id|>", "<|end_of_text|>", "<|endoftext|>"};
// A schema that takes longer is compiled once.
constexpr double kSlowCompileUs = 200'000;

struct ConstraintsFlags {
  std::string schemas, tokenizer;
  std::optional<std::string> end_token, json_file;
  int64_t limit = 1'000'000;
  int64_t repeats = 3;
};

double MicrosSince(MicrosClock::time_point began) {
  return std::chrono::duration<double, std::micro>(MicrosClock::now() - began).count();
}

struct Vocabulary {
  std::shared_ptr<const Tokenizer> tokenizer;
  TokenId end = 0;
  std::shared_ptr<const ConstraintVocabulary> shared;
};

absl::StatusOr<std::shared_ptr<const Tokenizer>> LoadTokenizer(const std::string& path) {
  if (std::filesystem::is_directory(path)) return Tokenizer::Load(path);
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return Tokenizer::FromJson(text);
}

absl::StatusOr<Vocabulary> OpenVocabulary(const ConstraintsFlags& flags) {
  Vocabulary vocabulary;
  auto tokenizer = LoadTokenizer(flags.tokenizer);
  if (!tokenizer.ok()) return WithExitCode(kNoInput, tokenizer.status());
  vocabulary.tokenizer = *std::move(tokenizer);
  std::optional<TokenId> end = vocabulary.tokenizer->eos_id();
  if (flags.end_token) end = vocabulary.tokenizer->TokenToId(*flags.end_token);
  for (const char* const name : kEndNames) {
    if (!end && !flags.end_token) end = vocabulary.tokenizer->TokenToId(name);
  }
  if (!end) return UsageError("the tokenizer has no such end of sequence: name it by --eos");
  vocabulary.end = *end;
  vocabulary.shared = MakeConstraintVocabulary(*vocabulary.tokenizer, {*end});
  return vocabulary;
}

// Of one instance: the masks up to the end or the refusal, and the tokens that were taken, in us.
struct Walked {
  bool is_taken = false;
  size_t num_taken = 0;
  double start_us = 0;
  std::vector<double> masks, advances;
};

Walked Walk(const Vocabulary& vocabulary, const std::shared_ptr<const Automaton>& automaton,
            const std::vector<TokenId>& tokens, absl::Span<uint32_t> mask) {
  Walked walked;
  auto began = MicrosClock::now();
  TokenMatcher matcher(vocabulary.shared, automaton);
  walked.start_us = MicrosSince(began);
  for (size_t i = 0;; ++i) {
    const TokenId token = i < tokens.size() ? tokens[i] : vocabulary.end;
    began = MicrosClock::now();
    matcher.FillMask(mask);
    walked.masks.push_back(MicrosSince(began));
    if (!((mask[static_cast<size_t>(token) / 32] >> (token % 32)) & 1)) break;
    walked.is_taken = i == tokens.size();
    if (walked.is_taken) break;
    began = MicrosClock::now();
    const bool advanced = matcher.Accept(token);
    walked.advances.push_back(MicrosSince(began));
    if (!advanced) break;
    ++walked.num_taken;
  }
  return walked;
}

// The results of one schema, of which a line of --json is made.
struct SchemaResult {
  absl::Status status;
  std::vector<double> compile_us;           // by repeat
  std::vector<Walked> least, first, again;  // by instance, the valid ones first
  std::vector<size_t> valid_refused, invalid_taken;

  bool passes() const { return status.ok() && valid_refused.empty() && invalid_taken.empty(); }
};

absl::StatusOr<std::shared_ptr<const Automaton>> CompileText(const std::string& text) {
  ConstraintSpec spec;
  size_t num_values_left = kMaxJsonValues;
  ASSIGN_OR_RETURN(spec.schema, ParseJsonTree(text, &num_values_left));
  return CompileConstraint(spec);
}

void TakeLeast(const std::vector<double>& times, std::vector<double>* least) {
  for (size_t i = 0; i < times.size(); ++i) (*least)[i] = std::min((*least)[i], times[i]);
}

SchemaResult Measure(const SampledSchema& schema, const Vocabulary& vocabulary, int64_t repeats) {
  SchemaResult result;
  std::vector<std::shared_ptr<const Automaton>> automata;
  while (static_cast<int64_t>(automata.size()) < repeats) {
    const auto began = MicrosClock::now();
    auto automaton = CompileText(schema.schema);
    result.compile_us.push_back(MicrosSince(began));
    result.status = automaton.status();
    if (!automaton.ok()) return result;
    automata.push_back(*std::move(automaton));
    if (result.compile_us.back() > kSlowCompileUs) break;
  }
  std::vector<std::vector<TokenId>> instances;
  for (const auto* list : {&schema.valid, &schema.invalid}) {
    for (const std::string& text : *list) {
      auto tokens = vocabulary.tokenizer->Encode(text, {.add_special_tokens = false});
      instances.push_back(tokens.ok() ? *std::move(tokens) : std::vector<TokenId>());
    }
  }
  std::vector<uint32_t> mask((static_cast<size_t>(vocabulary.tokenizer->vocab_size()) + 31) / 32);
  for (int64_t repeat = 0; repeat <= repeats; ++repeat) {
    const auto& automaton = automata[std::min(static_cast<size_t>(repeat), automata.size() - 1)];
    for (size_t i = 0; i < instances.size(); ++i) {
      Walked walked = Walk(vocabulary, automaton, instances[i], absl::MakeSpan(mask));
      if (repeat == 0) {
        result.first.push_back(walked);
        result.least.push_back(std::move(walked));
      } else if (repeat < repeats) {
        TakeLeast(walked.masks, &result.least[i].masks);
        TakeLeast(walked.advances, &result.least[i].advances);
      } else {
        result.again.push_back(std::move(walked));
      }
    }
  }
  for (size_t i = 0; i < instances.size(); ++i) {
    const bool is_valid = i < schema.valid.size();
    if (is_valid && !result.first[i].is_taken) result.valid_refused.push_back(i);
    if (!is_valid && result.first[i].is_taken)
      result.invalid_taken.push_back(i - schema.valid.size());
  }
  return result;
}

// A reason without what differs from schema to schema.
std::string ReasonOf(const absl::Status& status) {
  std::string reason(status.message());
  if (reason.starts_with('#'))
    reason = reason.substr(std::min(reason.size(), reason.find(": ") + 2));
  const size_t quote = reason.find('"'), last = reason.rfind('"');
  if (quote != std::string::npos && last > quote)
    reason.replace(quote, last + 1 - quote, "\"...\"");
  return reason.substr(0, 110);
}

Json Rounded(const std::vector<double>& times) {
  Json list = Json::array();
  for (const double us : times)
    list.push_back(static_cast<double>(static_cast<int64_t>(us * 100)) / 100);
  return list;
}

// As tools/bench/peers/measure_constraints.py writes it.
Json LineOfSchema(const SampledSchema& schema, const SchemaResult& result) {
  Json line = {{"id", schema.id},
               {"num_valid", schema.valid.size()},
               {"num_invalid", schema.invalid.size()},
               {"status", !result.status.ok() ? "compile: refused"
                          : result.passes()   ? "passes"
                                              : "wrong"}};
  if (!result.status.ok()) {
    line["reason"] = std::string(result.status.message());
    return line;
  }
  line["compile_us"] = *std::min_element(result.compile_us.begin(), result.compile_us.end());
  line["first_compile_us"] = result.compile_us[0];
  line["valid_refused"] = result.valid_refused;
  line["invalid_taken"] = result.invalid_taken;
  std::vector<double> masks;
  for (const Walked& walked : result.least)
    masks.insert(masks.end(), walked.masks.begin(), walked.masks.end());
  line["mask_us"] = Rounded(masks);
  return line;
}

struct Totals {
  size_t num_schemas = 0, num_passing = 0, num_compiled = 0, num_with_instances = 0,
         num_passing_with_instances = 0, num_valid = 0, num_invalid = 0, num_valid_refused = 0,
         num_invalid_taken = 0, num_schemas_refusing = 0, num_schemas_taking = 0;
  std::map<std::string, int64_t> reasons;
  // In the order in which they are printed.
  std::vector<double> compile, first_compile, start, mask, first_mask, mask_again, advance, step;

  void Add(const SampledSchema& schema, const SchemaResult& result);
  std::vector<std::pair<std::string, std::vector<double>*>> Times() {
    return {{"compile", &compile}, {"compile, first", &first_compile}, {"new matcher", &start},
            {"mask", &mask},       {"mask, first", &first_mask},       {"mask, again", &mask_again},
            {"advance", &advance}, {"mask + advance", &step}};
  }
};

void Totals::Add(const SampledSchema& schema, const SchemaResult& result) {
  const bool has_instances = !schema.valid.empty() || !schema.invalid.empty();
  ++num_schemas;
  num_with_instances += has_instances;
  num_passing += result.passes();
  num_passing_with_instances += result.passes() && has_instances;
  if (!result.status.ok()) {
    ++reasons[ReasonOf(result.status)];
    return;
  }
  ++num_compiled;
  num_valid += schema.valid.size();
  num_invalid += schema.invalid.size();
  num_valid_refused += result.valid_refused.size();
  num_invalid_taken += result.invalid_taken.size();
  num_schemas_refusing += !result.valid_refused.empty();
  num_schemas_taking += !result.invalid_taken.empty();
  compile.push_back(*std::min_element(result.compile_us.begin(), result.compile_us.end()));
  first_compile.push_back(result.compile_us[0]);
  const auto append = [](const std::vector<double>& more, std::vector<double>* all) {
    all->insert(all->end(), more.begin(), more.end());
  };
  for (const Walked& walked : result.least) {
    append(walked.masks, &mask);
    append(walked.advances, &advance);
    for (size_t i = 0; i < walked.advances.size(); ++i)
      step.push_back(walked.masks[i] + walked.advances[i]);
  }
  for (const Walked& walked : result.first) {
    append(walked.masks, &first_mask);
    start.push_back(walked.start_us);
  }
  for (const Walked& walked : result.again) append(walked.masks, &mask_again);
}

Json Summary(Totals* totals) {
  Json json = {{"schemas", totals->num_schemas},
               {"compiled", totals->num_compiled},
               {"passes", totals->num_passing},
               {"with_instances", totals->num_with_instances},
               {"passes_with_instances", totals->num_passing_with_instances},
               {"valid_refused", totals->num_valid_refused},
               {"schemas_with_valid_refused", totals->num_schemas_refusing},
               {"valid_walked", totals->num_valid},
               {"invalid_taken", totals->num_invalid_taken},
               {"schemas_with_invalid_taken", totals->num_schemas_taking},
               {"invalid_walked", totals->num_invalid},
               {"refused", totals->reasons}};
  for (const auto& [name, times] : totals->Times()) {
    const Distribution all(*times);
    if (all.count() == 0) continue;
    json["times_us"][name] = {{"count", all.count()},      {"mean", all.Mean()},
                              {"p50", all.Percentile(50)}, {"p90", all.Percentile(90)},
                              {"p99", all.Percentile(99)}, {"p99.9", all.Percentile(99.9)},
                              {"max", all.Percentile(100)}};
  }
  return json;
}

void PrintSummary(const Json& summary) {
  const auto number = [&](const char* key) { return summary[key].get<int64_t>(); };
  std::printf("%6ld of %ld schemas pass (%ld of the %ld that have instances)\n", number("passes"),
              number("schemas"), number("passes_with_instances"), number("with_instances"));
  std::printf("%6ld are refused when they are compiled\n", number("schemas") - number("compiled"));
  std::printf("%6ld of %ld valid instances are refused, in %ld schemas\n", number("valid_refused"),
              number("valid_walked"), number("schemas_with_valid_refused"));
  std::printf("%6ld of %ld invalid instances are taken, in %ld schemas\n", number("invalid_taken"),
              number("invalid_walked"), number("schemas_with_invalid_taken"));
  std::printf("\n%-16s %9s %9s %9s %9s %9s %9s %9s\n", "us", "count", "mean", "p50", "p90", "p99",
              "p99.9", "max");
  for (const auto& [name, times] : summary["times_us"].items()) {
    std::printf("%-16s %9ld", name.c_str(), times["count"].get<int64_t>());
    for (const char* const key : {"mean", "p50", "p90", "p99", "p99.9", "max"})
      std::printf(" %9.1f", times[key].get<double>());
    std::printf("\n");
  }
  if (!summary["refused"].empty()) std::printf("\nrefused\n");
  for (const auto& [reason, count] : summary["refused"].items())
    std::printf("%6ld %s\n", count.get<int64_t>(), reason.c_str());
}

absl::Status Constraints(const ConstraintsFlags& flags) {
  ASSIGN_OR_RETURN(const auto json_file, OpenResultFile("--json", flags.json_file));
  ASSIGN_OR_RETURN(const auto sample, ReadSchemaSample("--schemas", flags.schemas, flags.limit));
  ASSIGN_OR_RETURN(const Vocabulary vocabulary, OpenVocabulary(flags));
  const std::string tokens =
      absl::StrCat(flags.tokenizer, ", ", vocabulary.tokenizer->vocab_size(), " tokens");
  Print({.command = "constraints",
         .what = absl::StrCat(
             sample.size(), " JSON schemas, compiled and walked with their instances, one thread"),
         .lines = {{"schemas", flags.schemas}, {"tokenizer", tokens}}});
  Json json = RunJson("constraints");
  json["tokenizer"] = tokens;
  json["schemas"] = Json::array();
  const InterruptibleRun interruptible;
  Totals totals;
  for (const SampledSchema& schema : sample) {
    if (Interrupted()) break;
    const SchemaResult result = Measure(schema, vocabulary, flags.repeats);
    totals.Add(schema, result);
    json["schemas"].push_back(LineOfSchema(schema, result));
  }
  json["summary"] = Summary(&totals);
  json["interrupted"] = Interrupted();
  PrintSummary(json["summary"]);
  return WriteJson(json, json_file.get());
}

}  // namespace

Command AddConstraints(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "constraints", "Real JSON schemas: which are enforced, and the time of each token's mask");
  command->footer(
      "A line of the file has a schema (\"id\", \"schema\") and its \"valid\" and \"invalid\" "
      "instances. "
      "Each schema is compiled from its text, and the text of each instance is walked token by "
      "token: the mask is "
      "filled, the token is looked for in it, and taken. A schema passes if it is compiled, its "
      "valid instances are "
      "taken and its invalid ones are not.\n\n"
      "All this is done --repeats times, each time with a schema that is compiled anew; a mask's "
      "time is the least of "
      "these. \"first\" is the first time by itself, \"again\" one more walk with a schema that "
      "has seen all instances. "
      "The vocabulary is prepared once, as by a server: token sets of plain JSON strings are there "
      "from the start, and "
      "those that schemas add are kept for later schemas.\n\n"
      "Examples:\n"
      "  quire-bench constraints --schemas sample.jsonl --tokenizer MODEL_FOLDER\n"
      "  quire-bench constraints --schemas sample.jsonl --tokenizer tokenizer.json --limit 100 "
      "--json masks.json");
  const auto flags = std::make_shared<ConstraintsFlags>();
  FlagGroup add(*command);
  add.Text("--schemas", &flags->schemas, "FILE",
           "JSON lines: {\"id\", \"schema\", \"valid\": [...], \"invalid\": [...]}")
      ->required();
  add.Text("--tokenizer", &flags->tokenizer, "FOLDER", "A model's folder, or a tokenizer.json")
      ->required();
  add.Text("--eos", &flags->end_token, "TOKEN",
           "The token that ends an answer (default: the model's, or a well-known name)");
  add.Count("--limit", &flags->limit, 1, 1'000'000'000, "Only the first lines")
      ->capture_default_str();
  add.Count("--repeats", &flags->repeats, 1, 100, "How often all this is done")
      ->capture_default_str();
  add.Json(&flags->json_file);
  return [flags] { return Finish(Constraints(*flags)); };
}

}  // namespace quire::bench

// ConstraintCompiler: from what clients ask for to what the engine asks: schemas, expressions and
// grammars become automata. The latest ones are kept, by their contents, so that a schema that
// comes again costs nothing. Any thread; compiling takes from 0.1 ms to a second, so not on a loop.
#pragma once

#include <cstddef>
#include <future>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/grammar/constraint/constraint_spec.h"
#include "server/grammar/constraint/grammar_constraint.h"
#include "server/text/tokenizer/tokenizer.h"

namespace quire {

// The vocabulary that all constraints of a model share, with the token sets that most schemas need.
std::shared_ptr<const ConstraintVocabulary> MakeConstraintVocabulary(
    const Tokenizer& tokenizer, const std::vector<TokenId>& ends);

// What a ConstraintCompiler makes of a spec and keeps; errors as there.
absl::StatusOr<std::shared_ptr<const Automaton>> CompileConstraint(const ConstraintSpec& spec);

class ConstraintCompiler {
 public:
  // `end_tokens` end an answer of the model. The vocabulary is sorted on a thread of its own, which
  // takes some 0.1 s; who compiles meanwhile waits for it.
  ConstraintCompiler(std::shared_ptr<const Tokenizer> tokenizer, std::vector<TokenId> end_tokens);

  // The compiled form of `spec`; null if it is not kept.
  std::shared_ptr<const TokenConstraintSource> Find(const ConstraintSpec& spec);

  // INVALID_ARGUMENT for what is wrong in the spec, UNIMPLEMENTED for what is not enforced (it
  // names it), RESOURCE_EXHAUSTED for what is too large or too complex.
  absl::StatusOr<std::shared_ptr<const TokenConstraintSource>> Compile(const ConstraintSpec& spec);

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const GrammarConstraintSource> source;
  };

  std::shared_ptr<const TokenConstraintSource> FindKey(const std::string& key);
  void Keep(std::string key, std::shared_ptr<const GrammarConstraintSource> source);

  const std::shared_future<std::shared_ptr<const ConstraintVocabulary>> vocabulary_;
  absl::Mutex mutex_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // the latest first
  absl::flat_hash_map<std::string, std::list<Entry>::iterator> by_key_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quire

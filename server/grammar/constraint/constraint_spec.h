// ConstraintSpec: what an answer must look like, as a client asks for it. Plain value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/text/json_tree.h"

namespace quire {

struct ConstraintSpec {
  enum class Kind : uint8_t {
    kJsonSchema,  // JSON that `schema` allows
    kRegex,       // a text that `text` matches, as a whole
    kGrammar,     // a text of the grammar `text`, in GBNF or Lark's notation
    kChoice,      // one of `choices`
  };

  Kind kind = Kind::kJsonSchema;
  JsonTree schema = {};
  std::string text = {};
  std::vector<std::string> choices = {};
  // JSON without white space between its tokens.
  bool is_compact = false;
  std::string field = {};  // the client's name for it, for errors; empty: the surface's usual one
  // The answer begins with reasoning up to this text (empty: with none), which nothing limits. With
  // `reasoning_open`, if the answer begins with that; else always.
  std::string reasoning_open = {};
  std::string reasoning_close = {};
};

// The same text for equal specs, and for others another one.
std::string KeyOf(const ConstraintSpec& spec);

}  // namespace quire

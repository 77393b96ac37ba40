// Schemas that are small and mean much: each must be compiled or refused within the limits. One
// thread.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace quire {

struct ExplosiveSchema {
  std::string name, schema;

  friend void PrintTo(const ExplosiveSchema& one, std::ostream* out) { *out << one.name; }
};

// `text` `count` times, with commas; %i in it is the number.
std::string Repeated(const std::string& text, int count);

std::vector<ExplosiveSchema> ExplosiveSchemas();

}  // namespace quire

// What --plan prints of a capacity, for people or as one JSON object, and what the log says of the
// memory that a start took. Plain functions; any thread.
#pragma once

#include <string>

#include "engine/capacity.h"

namespace quire {

// `model_folder` is named as what is planned for; ends with a line break.
std::string CapacityText(const Capacity& capacity, const std::string& model_folder);
std::string CapacityJson(const Capacity& capacity, const std::string& model_folder);

// For a line of the JSON log: its message and "weights_bytes" and so on, as members of an object.
std::string MemoryMembers(const MemoryLedger& ledger);

}  // namespace quire

// The text of --plan about a capacity, for people or as one JSON object, and the log's text about
// the memory that a start took. Plain functions; any thread.
#pragma once

#include <string>

#include "engine/capacity.h"

namespace quire {

// Names `model_folder` as the model of the plan; ends with a line break.
std::string CapacityText(const Capacity& capacity, const std::string& model_folder);
std::string CapacityJson(const Capacity& capacity, const std::string& model_folder);

// For a line of the JSON log: its message and "weights_bytes" and so on, as members of an object.
std::string MemoryMembers(const MemoryLedger& ledger);

}  // namespace quire

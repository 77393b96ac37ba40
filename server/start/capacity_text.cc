#include "server/start/capacity_text.h"

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/base/version.h"

namespace quire {

namespace {

double ToMiB(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::string WindowText(int64_t sliding_window) {
  return sliding_window == 0 ? "all" : absl::StrCat(sliding_window);
}

std::string HeadsText(const KvSpec& spec) {
  return absl::StrCat(spec.num_kv_heads, " x ", spec.k_head_dim);
}

std::string FilesText(const Capacity& capacity) {
  if (!capacity.file_bytes) return "planned from config.json alone: no weights were looked at";
  return absl::StrFormat("weights in files of %.1f MiB, whose headers fit config.json",
                         ToMiB(*capacity.file_bytes));
}

std::string WeightsText(const Capacity& capacity) {
  std::string text;
  for (const FormatBytes& weights : capacity.weights) {
    absl::StrAppendFormat(&text, "  %-36s %9.1f MiB\n", weights.format, ToMiB(weights.bytes));
  }
  return text;
}

std::string LayersText(const Capacity& capacity) {
  std::string text = absl::StrFormat("  %6s  %7s  %16s  %-10s  %15s\n", "layers", "window",
                                     "KV heads x size", "data type", "bytes per token");
  for (const LayerKv& kv : capacity.kv) {
    absl::StrAppendFormat(&text, "  %6d  %7s  %16s  %-10s  %15d\n", kv.num_layers,
                          WindowText(kv.spec.sliding_window), HeadsText(kv.spec),
                          DTypeName(kv.spec.dtype), kv.bytes_per_token);
  }
  if (capacity.num_layers_without_kv > 0) {
    absl::StrAppendFormat(&text, "  %6d  read an earlier layer's\n",
                          capacity.num_layers_without_kv);
  }
  return text;
}

std::string StatesText(const Capacity& capacity) {
  const StateCapacity& states = capacity.states;
  if (states.num_layers == 0) return "";
  return absl::StrFormat(
      "  %6d  keep %.1f MiB of each sequence, however long it is (recurrent states):\n"
      "          of %d running sequences and of %d prefixes\n",
      states.num_layers, ToMiB(states.bytes_per_sequence), capacity.model.max_num_seqs,
      states.num_snapshots);
}

std::string StreamsText(const Capacity& capacity) {
  std::string text = absl::StrFormat("  %10s  %15s  %8s\n", "tokens", "KV of each, MiB", "streams");
  for (const StreamCapacity& streams : capacity.streams) {
    absl::StrAppendFormat(&text, "  %10d  %15.1f  %8d\n", streams.num_tokens,
                          ToMiB(streams.kv_bytes), streams.num_streams);
  }
  return text;
}

}  // namespace

std::string CapacityText(const Capacity& capacity, const std::string& model_folder) {
  const ModelInfo& model = capacity.model;
  return absl::StrCat(
      "quire-server ", kVersion, " would serve ", model_folder, "\n  ", model.config.architecture,
      ", ", model.num_parameters, " parameters, ", DTypeName(model.dtype), "\n  ",
      FilesText(capacity), "\n  on ", model.device_name, "\n\nmemory:\n",
      capacity.ledger.ToString(), "\n\nweights by format:\n", WeightsText(capacity),
      "\nKV cache: ", model.num_kv_blocks, " blocks of ", model.block_size, " tokens, ",
      capacity.block_bytes, " bytes each\n", LayersText(capacity), StatesText(capacity),
      "\nstreams with room in the cache at once, by tokens of prompt and answer together:\n",
      StreamsText(capacity), "\nOf these at most ", model.max_num_seqs,
      " run in one step (--max-num-seqs). What weights take is an upper bound on the CPU, and on "
      "a\nGPU graphs, plans and code are an allowance: a start measures both.\n");
}

std::string CapacityJson(const Capacity& capacity, const std::string& model_folder) {
  using Json = nlohmann::ordered_json;
  const ModelInfo& model = capacity.model;
  Json root = {{"version", kVersion},
               {"model_folder", model_folder},
               {"architecture", model.config.architecture},
               {"num_parameters", model.num_parameters},
               {"dtype", DTypeName(model.dtype)},
               {"kv_cache_dtype", DTypeName(model.kv_cache_dtype)},
               {"device", model.device_name},
               {"max_model_len", model.max_model_len},
               {"max_num_seqs", model.max_num_seqs},
               {"max_num_batched_tokens", model.max_num_batched_tokens},
               {"weight_file_bytes", nullptr},
               {"block_size", model.block_size},
               {"block_bytes", capacity.block_bytes},
               {"num_kv_blocks", model.num_kv_blocks},
               {"num_layers_without_kv", capacity.num_layers_without_kv}};
  if (capacity.file_bytes) root["weight_file_bytes"] = *capacity.file_bytes;
  const MemoryLedger& ledger = capacity.ledger;
  Json& memory =
      root["memory"] = {{"total_bytes", ledger.total_bytes},
                        {"in_use_before_bytes", ledger.total_bytes - ledger.available_bytes},
                        {"entries", Json::array()},
                        {"free_bytes", ledger.free_bytes}};
  for (const auto& [what, bytes] : ledger.entries) {
    memory["entries"].push_back({{"what", what}, {"bytes", bytes}});
  }
  root["weights"] = Json::array();
  for (const FormatBytes& weights : capacity.weights) {
    root["weights"].push_back({{"format", weights.format}, {"bytes", weights.bytes}});
  }
  root["kv"] = Json::array();
  for (const LayerKv& kv : capacity.kv) {
    root["kv"].push_back({{"num_layers", kv.num_layers},
                          {"sliding_window", kv.spec.sliding_window},
                          {"num_kv_heads", kv.spec.num_kv_heads},
                          {"head_dim", kv.spec.k_head_dim},
                          {"dtype", DTypeName(kv.spec.dtype)},
                          {"bytes_per_token", kv.bytes_per_token}});
  }
  root["states"] = {{"num_layers", capacity.states.num_layers},
                    {"bytes_per_sequence", capacity.states.bytes_per_sequence},
                    {"num_snapshots", capacity.states.num_snapshots}};
  root["streams"] = Json::array();
  for (const StreamCapacity& streams : capacity.streams) {
    root["streams"].push_back({{"num_tokens", streams.num_tokens},
                               {"kv_bytes", streams.kv_bytes},
                               {"num_streams", streams.num_streams}});
  }
  // A folder's name may be no UTF-8.
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string MemoryMembers(const MemoryLedger& ledger) {
  std::string members = absl::StrCat("\"message\":\"memory\",\"in_use_before_bytes\":",
                                     ledger.total_bytes - ledger.available_bytes);
  for (const auto& [what, bytes] : ledger.entries) {
    // "graphs, plans" -> "graphs_plans".
    std::string name;
    for (const char c : what) {
      if (absl::ascii_isalnum(static_cast<unsigned char>(c))) {
        name.push_back(absl::ascii_tolower(static_cast<unsigned char>(c)));
      } else if (!name.empty() && name.back() != '_') {
        name.push_back('_');
      }
    }
    absl::StrAppend(&members, ",\"", name, "_bytes\":", bytes);
  }
  absl::StrAppend(&members, ",\"free_bytes\":", ledger.free_bytes,
                  ",\"device_bytes\":", ledger.total_bytes);
  return members;
}

}  // namespace quire

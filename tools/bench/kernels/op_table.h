// The tables of quire-bench kernels: an operation's time beside what the device allows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace quire::bench {

// Of the device, measured in the same run.
struct Limits {
  double bytes_per_s;
  double flops_per_s;
  double copied_bytes_per_s;  // read and written

  double Us(double bytes, double flops) const {
    return 1e6 * std::max(bytes / bytes_per_s, flops / flops_per_s);
  }
};

// One operation, which a step calls `count` times, each in `us` microseconds.
nlohmann::ordered_json OpRow(const std::string& name, const std::string& shape, size_t count,
                             double us, double bytes, double flops, const Limits& limits);

// "0.625"; "-" above 1: what comes from a cache is no share of what the memory gives.
inline std::string ShareText(double share) {
  return share > 1 ? "-" : absl::StrFormat("%.3f", share);
}

void PrintOpHeader(const std::string& title);
void PrintOpRow(const nlohmann::ordered_json& row);

}  // namespace quire::bench

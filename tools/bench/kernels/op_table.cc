#include "tools/bench/kernels/op_table.h"

#include <cstdio>

#include "nlohmann/json.hpp"
#include "tools/bench/engine/memory_fit.h"

namespace quire::bench {

using Json = nlohmann::ordered_json;

Json OpRow(const std::string& name, const std::string& shape, size_t count, double us, double bytes,
           double flops, const Limits& limits) {
  return {{"op", name},
          {"shape", shape},
          {"count", count},
          {"us", us},
          {"bytes", bytes},
          {"flops", flops},
          {"tb_s", bytes / us * 1e-6},
          {"tflops", flops / us * 1e-6},
          {"limit_us", limits.Us(bytes, flops)},
          {"share_of_limit", limits.Us(bytes, flops) / us}};
}

void PrintOpHeader(const std::string& title) {
  std::printf("%s\n  %-16s %-36s %5s %10s %9s %9s %7s\n", title.c_str(), "operation", "shape",
              "calls", "us a call", "TB/s", "TFLOP/s", "share");
}

void PrintOpRow(const Json& row) {
  std::printf("  %-16s %-36s %5d %10.2f %9.3f %9.2f %7s\n", row["op"].get<std::string>().c_str(),
              row["shape"].get<std::string>().c_str(), row["count"].get<int>(),
              row["us"].get<double>(), row["tb_s"].get<double>(), row["tflops"].get<double>(),
              ShareText(row["share_of_limit"].get<double>()).c_str());
}

void Skip(const std::string& name, int64_t needed_bytes, int64_t free_bytes, Json* result) {
  std::printf("%s\n", SkippedText(name, needed_bytes, free_bytes).c_str());
  (*result)["skipped"].push_back(
      {{"name", name}, {"needed_bytes", needed_bytes}, {"free_bytes", free_bytes}});
}

}  // namespace quire::bench

// GemmPeer: another library's gemm of the same shape, to compare with: oneDNN's on a CPU, where the
// build has it, and cuBLASLt's first answer on a GPU. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/kernels/gemm_case.h"
#include "tools/bench/kernels/graph_timer.h"

namespace quire::bench {

class GemmPeer {
 public:
  // Null where there is none.
  static absl::StatusOr<std::unique_ptr<GemmPeer>> Create(GraphTimer& timer);
  virtual ~GemmPeer() = default;

  struct Result {
    std::string name;
    double us;
  };
  virtual absl::StatusOr<Result> Measure(const GemmCase& gemm, int64_t num_rows) = 0;
  // Every kernel of the backend that can compute it; empty where there is one way.
  virtual absl::StatusOr<std::vector<Result>> MeasureCandidates(const GemmCase&, int64_t) {
    return std::vector<Result>();
  }
};

}  // namespace quire::bench

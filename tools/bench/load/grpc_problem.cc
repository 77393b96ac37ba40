#include "tools/bench/load/grpc_problem.h"

#include "absl/status/status.h"
#include "server/wire/client/grpc_messages.h"

namespace quire::bench {

std::string GrpcProblem(const AnswerEnd& end) {
  const absl::Status status = GrpcStatus(end);
  if (status.ok()) return "";
  return end.Find("grpc-status").empty() ? std::string(status.message()) : status.ToString();
}

}  // namespace quire::bench

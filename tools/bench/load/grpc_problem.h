// Why a gRPC call failed, as a report says it. Pure.
#pragma once

#include <string>

#include "server/wire/client/client_connection.h"

namespace quire::bench {

// "UNAVAILABLE: the queue is full", or why there is no gRPC status; empty if the call succeeded.
std::string GrpcProblem(const AnswerEnd& end);

}  // namespace quire::bench

// Early return for absl::Status and absl::StatusOr, for the cold paths that can fail on outside
// input.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define QUIRE_CONCAT_INNER(a, b) a##b
#define QUIRE_CONCAT(a, b) QUIRE_CONCAT_INNER(a, b)

// RETURN_IF_ERROR(expr): returns the status of `expr` from this function unless it is OK.
#define RETURN_IF_ERROR(expr)                                                        \
  do {                                                                               \
    if (absl::Status quire_status = (expr); !quire_status.ok()) return quire_status; \
  } while (false)

// ASSIGN_OR_RETURN(auto x, expr): binds the value of a StatusOr, or returns its status.
#define ASSIGN_OR_RETURN(lhs, expr) \
  QUIRE_ASSIGN_OR_RETURN(QUIRE_CONCAT(quire_statusor_, __LINE__), lhs, expr)

#define QUIRE_ASSIGN_OR_RETURN(statusor, lhs, expr) \
  auto statusor = (expr);                           \
  if (!statusor.ok()) return statusor.status();     \
  lhs = std::move(statusor).value()

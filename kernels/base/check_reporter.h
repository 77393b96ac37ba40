// Where a failed CHECK (check.h) says what has failed, for programs that must never wait for the
// reader of standard error.
#pragma once

#include <string>

namespace quire {

// `report` gets what a failed CHECK says, instead of standard error; then the program is aborted.
// To be set before there are threads.
void SetCheckReporter(void (*report)(const std::string& message));

}  // namespace quire

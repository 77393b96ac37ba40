// A flag for seconds. Main thread.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace quire::client {

// 0 or more, at most a year.
void AddTimeoutFlag(CLI::App& command, const std::string& name, const std::string& description,
                    double* seconds);

}  // namespace quire::client

#include "tools/client/timeout_flag.h"

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"

namespace quire::client {

void AddTimeoutFlag(CLI::App& command, const std::string& name, const std::string& description,
                    double* seconds) {
  constexpr double kYear = 366.0 * 24 * 3600;
  const CLI::Validator in_range(
      [](std::string& text) -> std::string {
        double value = -1;
        const bool number = absl::SimpleAtod(text, &value) && value >= 0 && value <= kYear;
        return number ? "" : "\"" + text + "\" is not a number of seconds, 0 or more";
      },
      "");
  command.add_option(name, *seconds, description)
      ->type_name("SECONDS")
      ->check(in_range)
      ->capture_default_str();
}

}  // namespace quire::client

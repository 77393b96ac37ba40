#include "server/request/random_id.h"

#include <array>
#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "server/base/random_bytes.h"

namespace quire {

std::string RandomId() {
  std::array<uint8_t, 16> bytes = {};
  FillRandom(absl::MakeSpan(bytes));
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace quire

#include "server/request/random_id.h"

#include <openssl/rand.h>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "kernels/base/check.h"

namespace quire {

std::string RandomId() {
  unsigned char bytes[16];
  CHECK_EQ(RAND_bytes(bytes, sizeof(bytes)), 1) << "the system has no random numbers";
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes), sizeof(bytes)});
}

}  // namespace quire

#include "server/base/sha256.h"

#include <openssl/sha.h>

namespace quire {

Sha256 Sha256Of(absl::string_view text) {
  Sha256 digest;
  SHA256(reinterpret_cast<const uint8_t*>(text.data()), text.size(), digest.data());
  return digest;
}

}  // namespace quire

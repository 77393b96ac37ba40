#include "server/base/random_bytes.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>

#include "kernels/base/check.h"

namespace quire {

namespace {

void FillNow(absl::Span<uint8_t> bytes) {
  CHECK_EQ(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())), 1)
      << "the system has no random numbers";
}

}  // namespace

void FillRandom(absl::Span<uint8_t> bytes) {
  struct Store {
    std::array<uint8_t, 1024> bytes = {};
    size_t num_left = 0;  // its last ones
  };
  thread_local Store store;
  if (bytes.size() > store.bytes.size() / 4) return FillNow(bytes);
  if (bytes.size() > store.num_left) {
    FillNow(absl::MakeSpan(store.bytes));
    store.num_left = store.bytes.size();
  }
  uint8_t* taken = store.bytes.data() + store.bytes.size() - store.num_left;
  std::copy_n(taken, bytes.size(), bytes.data());
  OPENSSL_cleanse(taken, bytes.size());  // nobody is told twice
  store.num_left -= bytes.size();
}

}  // namespace quire

#include "server/observe/kv_events/kv_event_encoding.h"

#include <bit>
#include <limits>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace quire {

namespace {

// MessagePack's types as far as events need them (github.com/msgpack/msgpack, spec.md). Numbers are
// big-endian.
class Packer {
 public:
  void Array(size_t size) {
    constexpr size_t kMaxFix = 15;
    if (size <= kMaxFix) {
      Byte(0x90 | size);
    } else {
      Byte(0xdd);
      BigEndian(size, 4);
    }
  }
  void Text(absl::string_view text) {  // of at most 255 bytes
    Byte(0xd9);
    Byte(text.size());
    bytes_.append(text.data(), text.size());
  }
  void Unsigned(uint64_t value) {
    constexpr uint64_t kMaxFix = 127;
    if (value <= kMaxFix) {
      Byte(value);
    } else if (value <= std::numeric_limits<uint16_t>::max()) {
      Byte(0xcd);
      BigEndian(value, 2);
    } else if (value <= std::numeric_limits<uint32_t>::max()) {
      Byte(0xce);
      BigEndian(value, 4);
    } else {
      Byte(0xcf);
      BigEndian(value, 8);
    }
  }
  void Double(double value) {
    Byte(0xcb);
    BigEndian(std::bit_cast<uint64_t>(value), 8);
  }
  void Nil() { Byte(0xc0); }
  std::string Take() { return std::move(bytes_); }

 private:
  void Byte(uint64_t byte) { bytes_.push_back(static_cast<char>(byte)); }
  void BigEndian(uint64_t value, int num_bytes) {
    constexpr int kByteBits = 8;
    for (int i = num_bytes - 1; i >= 0; --i) Byte(value >> (i * kByteBits) & 0xff);
  }

  std::string bytes_;
};

constexpr char kMedium[] = "GPU";  // vLLM's word for the cache that steps read, whatever the device

void PackHashes(const KvEvent& event, Packer& packer) {
  packer.Array(event.hashes.size());
  for (const uint64_t hash : event.hashes) packer.Unsigned(hash);
}

// ["BlockStored", block_hashes, parent_block_hash, token_ids, block_size, lora_id, medium,
// lora_name]
void PackStored(const KvEvent& event, int32_t block_size, Packer& packer) {
  packer.Array(8);
  packer.Text("BlockStored");
  PackHashes(event, packer);
  if (event.parent.has_value()) {
    packer.Unsigned(*event.parent);
  } else {
    packer.Nil();
  }
  packer.Array(event.tokens.size());
  for (const TokenId token : event.tokens) packer.Unsigned(static_cast<uint64_t>(token));
  packer.Unsigned(static_cast<uint64_t>(block_size));
  packer.Nil();
  packer.Text(kMedium);
  packer.Nil();
}

}  // namespace

std::string EncodeKvEvents(const KvEventBatch& batch, int32_t block_size) {
  Packer packer;
  packer.Array(3);
  packer.Double(absl::ToDoubleSeconds(batch.time - absl::UnixEpoch()));
  packer.Array(batch.events.size());
  for (const KvEvent& event : batch.events) {
    switch (event.kind) {
      case KvEvent::Kind::kStored:
        PackStored(event, block_size, packer);
        break;
      case KvEvent::Kind::kRemoved:
        packer.Array(3);
        packer.Text("BlockRemoved");
        PackHashes(event, packer);
        packer.Text(kMedium);
        break;
      case KvEvent::Kind::kCleared:
        packer.Array(1);
        packer.Text("AllBlocksCleared");
        break;
    }
  }
  packer.Unsigned(0);
  return packer.Take();
}

}  // namespace quire

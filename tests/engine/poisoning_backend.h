// A CPU backend that writes NaN over what a slot of recurrent states held before it becomes
// somebody else's: before a sequence that begins from zeros gets it, and before a snapshot does. A
// sequence that reads what another one has left there answers with an error.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/runtime/cpu_stream.h"

namespace quire::testing {

class PoisoningBackend : public Backend {
 public:
  explicit PoisoningBackend(std::shared_ptr<std::atomic<int64_t>> num_poisoned)
      : cpu_(/*num_threads=*/2), ops_(cpu_.ops(), std::move(num_poisoned)) {}

  Device& device() override { return cpu_.device(); }
  Ops& ops() override { return ops_; }
  WeightStore& weight_store() override { return cpu_.weight_store(); }
  AttentionBackend* attention(AttentionPath path) override { return cpu_.attention(path); }

 private:
  class PoisoningOps : public Ops {
   public:
    PoisoningOps(Ops& ops, std::shared_ptr<std::atomic<int64_t>> num_poisoned)
        : ops_(ops), num_poisoned_(std::move(num_poisoned)) {}

   private:
#define QUIRE_OP(name)                                            \
  void Enqueue(Stream& stream, const name##Args& args) override { \
    Poison(stream, args);                                         \
    ops_.name(stream, args);                                      \
  }
    QUIRE_OPS(QUIRE_OP)
#undef QUIRE_OP

    template <typename Args>
    void Poison(Stream&, const Args&) {}
    void Poison(Stream& stream, const GatedDeltaArgs& args) {
      cpu::CpuStream::From(stream).Enqueue([this, args] {
        for (int32_t i = 0; i < args.batch.num_seqs; ++i) {
          const StateAccess& state = args.batch.sequences[i];
          if (state.write >= 0 && state.read < 0) PoisonSlot(args, state.write);
          for (int32_t j = 0; j < state.num_snapshots; ++j) {
            PoisonSlot(args, args.batch.snapshots[state.first_snapshot + j].slot);
          }
        }
      });
    }

    // Bytes of ones are NaN in every floating-point type.
    void PoisonSlot(const GatedDeltaArgs& args, int32_t slot) {
      const GatedDeltaShape& shape = args.shape;
      const StateView& state = args.state;
      std::memset(static_cast<char*>(state.conv) + slot * state.conv_stride_bytes, 0xff,
                  (shape.conv_width - 1) * shape.num_channels() * DTypeBytes(args.qkvz.dtype()));
      std::memset(static_cast<char*>(state.recurrent) + slot * state.recurrent_stride_bytes, 0xff,
                  shape.v_size() * shape.k_head_dim * DTypeBytes(state.dtype));
      ++*num_poisoned_;
    }

    Ops& ops_;
    std::shared_ptr<std::atomic<int64_t>> num_poisoned_;
  };

  cpu::CpuBackend cpu_;
  PoisoningOps ops_;
};

}  // namespace quire::testing

// The operations, each named once: the interface (ops.h), the checks of arguments, the backends'
// declarations and code that passes calls on follow from these lists. `OP(Name)` stands for an
// operation `Name` with arguments `NameArgs` (op_args.h, sampling.h, gated_delta.h, experts.h).
#pragma once

// Operations that need only their arguments: a backend has one free function for each.
#define QUIRE_FREE_OPS(OP) \
  OP(Embedding)            \
  OP(RmsNorm)              \
  OP(StoreHeads)           \
  OP(Gate)                 \
  OP(GatedActivation)      \
  OP(Add)                  \
  OP(Scale)                \
  OP(SoftCap)              \
  OP(GatherRows)           \
  OP(GatedDelta)           \
  OP(Route)                \
  OP(UpdateBlockTables)    \
  OP(ResetTokenCounts)

// Operations for which a backend keeps something: choices of gemms, room to work in.
#define QUIRE_STATEFUL_OPS(OP) \
  OP(Linear)                   \
  OP(GatedLinear)              \
  OP(ExpertsGatedLinear)       \
  OP(ExpertsLinear)            \
  OP(Sample)

#define QUIRE_OPS(OP) QUIRE_FREE_OPS(OP) QUIRE_STATEFUL_OPS(OP)

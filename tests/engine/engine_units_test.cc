// The small pure parts of the engine: attention selection, the ledger, output queues.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "engine/engine_parts.h"
#include "engine/model/attention_shapes.h"
#include "engine/output_writer.h"
#include "engine/runner/attention_selector.h"
#include "engine/serving_dtype.h"
#include "engine/start_clock.h"
#include "tests/engine/tiny_engine.h"

namespace quire {
namespace {

constexpr AttentionGeometry kGeometry = {.num_q_heads = 8,
                                         .num_kv_heads = 2,
                                         .k_head_dim = 64,
                                         .v_head_dim = 64,
                                         .block_size = 16,
                                         .query_dtype = DType::kBF16,
                                         .kv_dtype = DType::kBF16,
                                         .scale = 0.125f};

AttentionCapabilities Capabilities(AttentionPath path) {
  AttentionCapabilities capabilities;
  capabilities.path = path;
  capabilities.query_dtypes = {DType::kBF16};
  capabilities.kv_dtypes = {DType::kBF16};
  capabilities.block_sizes = {16, 32};
  capabilities.sliding_window = true;
  return capabilities;
}

AttentionDemand Demand(std::vector<AttentionGeometry> geometries, int64_t max_num_seqs = 64) {
  return {.geometries = std::move(geometries), .max_num_seqs = max_num_seqs, .sm_version = 0};
}

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr AttentionPhase kDecode = AttentionPhase::kDecode;
constexpr AttentionPhase kPrefill = AttentionPhase::kPrefill;

TEST(AttentionSelectorTest, EachPhaseHasAPathOfItsOwn) {
  const AttentionCapabilities trtllm = Capabilities(AttentionPath::kTrtllm);
  const AttentionCapabilities native = Capabilities(AttentionPath::kNative);
  const auto select = [&](AttentionPhase phase, std::optional<AttentionPath> forced) {
    return SelectAttentionPath(phase, forced, Demand({kGeometry}), {&trtllm, &native});
  };
  EXPECT_EQ(*select(kDecode, {}), AttentionPath::kTrtllm);
  EXPECT_EQ(*select(kPrefill, {}), AttentionPath::kNative);
  EXPECT_EQ(*select(kPrefill, AttentionPath::kTrtllm), AttentionPath::kTrtllm);
}

TEST(ServingDTypeTest, IsTheCheckpointsWhereTheDeviceComputesInIt) {
  const DeviceInfo cpu = {.name = "a CPU", .activation_dtypes = {DType::kF32, DType::kBF16}};
  DeviceInfo gpu = cpu;
  gpu.activation_dtypes.push_back(DType::kF16);
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    EXPECT_EQ(ChooseServingDType({}, dtype, cpu)->dtype, dtype);
  }
  EXPECT_EQ(ChooseServingDType({}, DType::kF16, gpu)->dtype, DType::kF16);
  const ServingDType other = *ChooseServingDType({}, DType::kF16, cpu);
  EXPECT_EQ(other.dtype, DType::kBF16);
  EXPECT_EQ(other.why, "because a CPU does not compute in float16");
}

TEST(ServingDTypeTest, WhatIsAskedForIsServedOrRefused) {
  const DeviceInfo cpu = {.name = "a CPU", .activation_dtypes = {DType::kF32, DType::kBF16}};
  EXPECT_EQ(ChooseServingDType(DType::kF32, DType::kF16, cpu)->dtype, DType::kF32);
  const absl::Status refused = ChooseServingDType(DType::kF16, DType::kF16, cpu).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(refused.message(),
            "--dtype: a CPU does not compute in float16; use --dtype float32 or --dtype bfloat16");
}

TEST(LoadQuantizationTest, IsOfFloatsOnADeviceWithGemmsForIt) {
  DeviceFacts device;
  device.info.name = "a GPU";
  device.format_for = [](const LinearFormat& format, DType dtype, bool) {
    return dtype == DType::kF32 ? LinearFormat() : format;
  };
  const auto choose = [&](LoadQuantization asked, const char* method, DType dtype) {
    ModelConfig model;
    if (*method != 0) {
      model.quantization = *QuantizationConfig::Parse(
          {.config = absl::StrCat(R"({"quantization_config": {"quant_method": ")", method,
                                  R"(", "bits": 4, "group_size": 128, "zero_point": true}})")});
    }
    return ChooseLoadQuantization(asked, model, dtype, device);
  };
  constexpr LoadQuantization kFloat8 = LoadQuantization::kFloat8, kNone = LoadQuantization::kNone;
  EXPECT_EQ(*choose(kFloat8, "", DType::kBF16), kFloat8);
  EXPECT_EQ(*choose(kNone, "", DType::kBF16), kNone);
  EXPECT_EQ(*choose(kNone, "awq", DType::kBF16), kNone);
  EXPECT_EQ(*choose(kFloat8, "fp8", DType::kBF16), kNone);  // is what is asked for
  for (const auto& refused :
       {choose(kFloat8, "awq", DType::kBF16).status(), choose(kFloat8, "", DType::kF32).status()}) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kOutOfRange) << refused;
    EXPECT_THAT(refused.message(), HasSubstr("--quantization: "));
  }
}

TEST(KvCacheDTypesTest, LayersAreSkippedByIndexOrByTheirWindow) {
  ModelConfig model;
  model.layers.resize(4);
  model.layers[1].gqa.sliding_window = model.layers[3].gqa.sliding_window = 64;
  const auto dtypes = [&](const std::vector<std::string>& skipped) {
    return KvCacheDTypes(model, DType::kF8E4M3, skipped, DType::kBF16);
  };
  constexpr DType kSmall = DType::kF8E4M3, kWhole = DType::kBF16;
  EXPECT_THAT(*dtypes({}), ElementsAre(kSmall, kSmall, kSmall, kSmall));
  EXPECT_THAT(*dtypes({"0", "3"}), ElementsAre(kWhole, kSmall, kSmall, kWhole));
  EXPECT_THAT(*dtypes({"sliding_window", "2"}), ElementsAre(kSmall, kWhole, kWhole, kWhole));
  for (const char* wrong : {"4", "-1", "sliding", ""}) {
    EXPECT_EQ(dtypes({wrong}).status().code(), absl::StatusCode::kOutOfRange) << wrong;
  }
  EXPECT_THAT(dtypes({"4"}).status().message(), HasSubstr("0 .. 3"));
}

TEST(AttentionSelectorTest, TakesTheFastestPathThatCan) {
  const AttentionCapabilities native = Capabilities(AttentionPath::kNative);
  const AttentionCapabilities trtllm = Capabilities(AttentionPath::kTrtllm);
  const auto select = [&](AttentionPhase phase, const AttentionCapabilities& second,
                          std::optional<AttentionPath> forced = {}) {
    return *SelectAttentionPath(phase, forced, Demand({kGeometry}), {&native, &second});
  };
  EXPECT_EQ(select(kDecode, trtllm), AttentionPath::kTrtllm);
  EXPECT_EQ(select(kPrefill, trtllm), AttentionPath::kNative);
  EXPECT_EQ(select(kDecode, trtllm, AttentionPath::kNative), AttentionPath::kNative);
  EXPECT_EQ(select(kPrefill, trtllm, AttentionPath::kTrtllm), AttentionPath::kTrtllm);
  AttentionCapabilities narrow = trtllm;
  narrow.block_sizes = {64};
  EXPECT_EQ(select(kDecode, narrow), AttentionPath::kNative);
}

TEST(AttentionSelectorTest, APathTakesAsManySequencesAsAStepHasOrNone) {
  const AttentionCapabilities native = Capabilities(AttentionPath::kNative);
  AttentionCapabilities trtllm = Capabilities(AttentionPath::kTrtllm);
  trtllm.max_num_seqs = 1000;
  const auto select = [&](int64_t max_num_seqs, std::optional<AttentionPath> forced) {
    return SelectAttentionPath(kDecode, forced, Demand({kGeometry}, max_num_seqs),
                               {&native, &trtllm});
  };
  EXPECT_EQ(*select(1000, {}), AttentionPath::kTrtllm);
  EXPECT_EQ(*select(1001, {}), AttentionPath::kNative);
  const absl::Status refused = select(1001, AttentionPath::kTrtllm).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(refused.message(), HasSubstr("takes at most 1000 sequences in a step"));
  EXPECT_THAT(refused.message(), HasSubstr("--max-num-seqs"));
}

TEST(AttentionSelectorTest, APathServesAllLayerGroupsOrNone) {
  const AttentionCapabilities native = Capabilities(AttentionPath::kNative);
  AttentionCapabilities trtllm = Capabilities(AttentionPath::kTrtllm);
  trtllm.sliding_window = false;
  AttentionGeometry windowed = kGeometry;
  windowed.sliding_window = 64;
  EXPECT_EQ(*SelectAttentionPath(kDecode, {}, Demand({kGeometry, windowed}), {&native, &trtllm}),
            AttentionPath::kNative);
  EXPECT_FALSE(SelectAttentionPath(kDecode, {}, Demand({windowed, kGeometry}), {&trtllm}).ok());
}

TEST(AttentionSelectorTest, ForcedPathThatCannotIsAnErrorWithTheReason) {
  const AttentionCapabilities native = Capabilities(AttentionPath::kNative);
  EXPECT_EQ(SelectAttentionPath(kDecode, AttentionPath::kTrtllm, Demand({kGeometry}), {&native})
                .status()
                .code(),
            absl::StatusCode::kOutOfRange);
  const auto reason = [&](auto change_geometry, auto change_path) {
    AttentionGeometry geometry = kGeometry;
    AttentionCapabilities path = native;
    change_geometry(geometry);
    change_path(path);
    return WhyUnsupported(path, geometry, /*sm_version=*/90);
  };
  const auto keep = [](auto&) {};
  EXPECT_EQ(reason(keep, keep), "");
  EXPECT_NE(reason([](auto& g) { g.k_head_dim = g.v_head_dim = 100; }, keep).find("100"),
            std::string::npos);
  EXPECT_NE(reason([](auto& g) { g.k_head_dim = g.v_head_dim = 264; }, keep).find("264"),
            std::string::npos);
  EXPECT_NE(reason([](auto& g) { g.block_size = 8; }, keep).find("--block-size"),
            std::string::npos);
  EXPECT_NE(reason([](auto& g) { g.kv_dtype = DType::kF32; }, keep).find("float32"),
            std::string::npos);
  EXPECT_NE(reason([](auto& g) { g.query_dtype = DType::kF16; }, keep).find("float16"),
            std::string::npos);
  EXPECT_NE(reason([](auto& g) { g.soft_cap = 30; }, keep).find("soft cap"), std::string::npos);
  EXPECT_NE(reason([](auto& g) { g.sliding_window = 9; }, [](auto& p) { p.sliding_window = false; })
                .find("window"),
            std::string::npos);
  EXPECT_NE(reason(keep, [](auto& p) { p.min_sm = 100; }).find("90"), std::string::npos);
  EXPECT_NE(reason(keep, [](auto& p) { p.head_dims = {128}; }).find("64"), std::string::npos);
}

SequenceEvent TokenEvent(TokenId token) {
  SequenceEvent event;
  event.kind = SequenceEvent::Kind::kToken;
  event.key = {1, 0};
  event.token = token;
  return event;
}

TEST(OutputStreamTest, AFullRingAsksForAPauseAndResumesWhenRead) {
  testing::Waiter waiter;
  const auto inbox = std::make_shared<Inbox>();
  const auto stream = std::make_shared<OutputStream>(1, 1, &waiter);
  OutputWriter writer(stream, absl::Now(), inbox);
  int num_written = 0;
  while (!writer.Write(TokenEvent(num_written), absl::Now())) ++num_written;
  ++num_written;
  EXPECT_LT(num_written, OutputStream::kCapacity);
  EXPECT_GT(num_written, OutputStream::kCapacity / 2);
  // Events that are in flight when the pause is asked for still fit.
  for (int i = 0; i < 4; ++i) writer.Write(TokenEvent(num_written + i), absl::Now());
  EXPECT_TRUE(inbox->Take(/*wait=*/false).empty());
  SequenceEvent event;
  for (int i = 0; i < num_written + 4; ++i) {
    ASSERT_TRUE(stream->Read(&event));
    EXPECT_EQ(event.token, i);
  }
  EXPECT_FALSE(stream->Read(&event));
  const std::vector<InboxMessage> messages = inbox->Take(/*wait=*/false);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(std::get<ResumeMessage>(messages[0]).key, (SequenceKey{1, 0}));
}

SequenceEvent LogprobEvent(TokenId token, int num_top) {
  SequenceEvent event = TokenEvent(token);
  event.logprobs = std::make_unique<TokenLogprobs>();
  event.logprobs->top.resize(num_top);
  return event;
}

// What a client does not read costs little, whatever it asked for.
TEST(OutputStreamTest, LogprobsFillAQueueEarly) {
  testing::Waiter waiter;
  const auto inbox = std::make_shared<Inbox>();
  const auto stream = std::make_shared<OutputStream>(1, 1, &waiter);
  OutputWriter writer(stream, absl::Now(), inbox);
  int num_written = 1;
  while (!writer.Write(LogprobEvent(num_written, 20), absl::Now())) ++num_written;
  EXPECT_GT(num_written, 8);
  EXPECT_LT(num_written, 32);
  SequenceEvent event;
  for (int i = 1; i <= num_written; ++i) {
    ASSERT_TRUE(stream->Read(&event));
    EXPECT_EQ(event.token, i);
    EXPECT_EQ(event.logprobs->top.size(), 20u);
  }
  EXPECT_EQ(inbox->Take(/*wait=*/false).size(), 1u);
  EXPECT_FALSE(writer.Write(LogprobEvent(0, 20), absl::Now()));
}

TEST(OutputStreamTest, NothingIsKeptForAReaderThatIsGone) {
  testing::Waiter waiter;
  const auto inbox = std::make_shared<Inbox>();
  const auto stream = std::make_shared<OutputStream>(1, 2, &waiter);
  OutputWriter writer(stream, absl::Now(), inbox);
  stream->Abandon();
  for (int i = 0; i < 2 * OutputStream::kCapacity; ++i) {
    EXPECT_FALSE(writer.Write(TokenEvent(i), absl::Now()));  // never full
  }
  EXPECT_FALSE(writer.finished());
  writer.End(FinishReason::kAbort, absl::OkStatus(), absl::Now());
  EXPECT_TRUE(writer.finished());
  SequenceEvent event;
  EXPECT_FALSE(stream->Read(&event));
}

TEST(StreamBoundsTest, PlacesAreHeldUntilTheirStreamIsGone) {
  testing::Waiter waiter;
  const auto bounds = std::make_shared<StreamBounds>(100);
  const RequestFlow greedy = {.id = 7}, other = {.id = 8};
  auto first = std::make_shared<OutputStream>(1, 70, &waiter, bounds->Take(greedy, 70));
  EXPECT_EQ(bounds->num_held(), 70);
  EXPECT_TRUE(bounds->Check(greedy, 5).ok());
  const absl::Status share = bounds->Check(greedy, 6);  // three quarters
  EXPECT_EQ(share.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(share.message().find("70 of your continuations"), std::string::npos) << share;
  EXPECT_TRUE(bounds->Check(other, 22).ok());
  EXPECT_FALSE(bounds->Check(other, 23).ok());
  EXPECT_TRUE(bounds->Check({.id = 0}, 30).ok());  // nobody in particular
  EXPECT_FALSE(bounds->Check({.id = 0}, 31).ok());
  {
    const auto rest = bounds->Take({.id = 0}, 29);
    EXPECT_TRUE(bounds->Check(other, 1).ok());  // who has none
    EXPECT_FALSE(bounds->Check(greedy, 1).ok());
  }
  first.reset();
  EXPECT_EQ(bounds->num_held(), 0);
  EXPECT_TRUE(bounds->Check(greedy, 75).ok());
}

TEST(OutputStreamTest, WriterAndReaderOnTwoThreadsLoseNothing) {
  testing::Waiter waiter;
  const auto inbox = std::make_shared<Inbox>();
  const auto stream = std::make_shared<OutputStream>(1, 1, &waiter);
  constexpr int kNumTokens = 50000;
  std::thread engine([&] {
    OutputWriter writer(stream, absl::Now(), inbox);
    for (int i = 0; i < kNumTokens; ++i) {
      const bool pause = writer.Write(TokenEvent(i), absl::Now());
      writer.Notify();
      if (pause) inbox->Take(/*wait=*/true);  // until the reader has made room
    }
    writer.Fail(absl::UnavailableError("the end"), absl::Now());
    writer.Notify();
  });
  int expected = 0;
  bool finished = false;
  while (!finished) {
    SequenceEvent event;
    if (!stream->Read(&event)) {
      waiter.Wait();
    } else if (event.kind == SequenceEvent::Kind::kFinished) {
      finished = true;
    } else {
      ASSERT_EQ(event.token, expected++);
    }
  }
  engine.join();
  EXPECT_EQ(expected, kNumTokens);
  EXPECT_EQ(stream->status(0).code(), absl::StatusCode::kUnavailable);
}

TEST(MemoryLedgerTest, ListsEveryEntryAndWhatIsLeft) {
  MemoryLedger ledger;
  ledger.Add("weights", int64_t{3} << 20);
  ledger.Add("KV cache", int64_t{5} << 20);
  ledger.total_bytes = int64_t{100} << 20;
  ledger.available_bytes = int64_t{50} << 20;
  ledger.free_bytes = int64_t{42} << 20;
  const std::string text = ledger.ToString();
  for (const char* part :
       {"weights", "3.0 MiB", "KV cache", "5.0 MiB", "50.0 MiB", "42.0 MiB", "100.0 MiB"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
  EXPECT_EQ(ledger.ToLine(), "in use before 50.0, weights 3.0, KV cache 5.0, free 42.0 of 100.0");
}

TEST(StartClockTest, StagesAddUp) {
  StartClock clock;
  clock.End({{"weights", absl::Milliseconds(1500)}, {"graphs", absl::Milliseconds(40)}});
  EXPECT_EQ(clock.ToString(), "1.540 s: weights 1.500, graphs 0.040");
  clock.End("port");
  ASSERT_EQ(clock.stages().size(), 3u);
  EXPECT_EQ(clock.stages()[2].first, "port");
  EXPECT_GE(clock.stages()[2].second, absl::ZeroDuration());
}

}  // namespace
}  // namespace quire

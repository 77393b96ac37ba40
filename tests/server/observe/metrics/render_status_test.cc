// The JSON behind the status page.
#include "server/observe/metrics/render_status.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/base/version.h"

namespace quire {
namespace {

using nlohmann::json;

class RenderStatusTest : public ::testing::Test {
 protected:
  RenderStatusTest() {
    model_.config.architecture = "Qwen3ForCausalLM";
    model_.device_name = "a device";
    model_.max_num_seqs = 64;
    model_.block_size = 16;
    memory_.Add("weights", 300);
    memory_.total_bytes = 1000;
    memory_.free_bytes = 600;
    sources_.engine = &engine_;
    sources_.model = &model_;
    sources_.memory = &memory_;
    sources_.server = &server_;
    sources_.model_name = "demo";
    sources_.start_time = absl::FromUnixMillis(1'500);
  }

  json Render() const { return json::parse(RenderStatus(sources_, num_ended_)); }

  EngineMetrics engine_{4096};
  ModelInfo model_;
  MemoryLedger memory_;
  ServerMetrics server_;
  MetricSources sources_;
  uint64_t num_ended_ = 0;
};

TEST_F(RenderStatusTest, SaysWhatRunsWhere) {
  const json status = Render();
  EXPECT_EQ(status["version"], kVersion);
  EXPECT_EQ(status["start_seconds"], 1.5);
  EXPECT_EQ(status["model"]["name"], "demo");
  EXPECT_EQ(status["model"]["device"], "a device");
  EXPECT_EQ(status["memory"]["uses"], json::parse(R"([{"use": "weights", "bytes": 300}])"));
  EXPECT_EQ(status["memory"]["device_bytes"], 1000);
  EXPECT_EQ(status["memory"]["device_free_bytes"], 600);
  EXPECT_GT(status["memory"]["resident_bytes"], 1 << 20);
}

TEST_F(RenderStatusTest, SaysWhetherItServesDrainsOrHasFailed) {
  EXPECT_EQ(Render()["state"], "serving");
  sources_.status.admitting = false;
  EXPECT_EQ(Render()["state"], "draining");
  sources_.status.failed = true;
  EXPECT_EQ(Render()["state"], "failed");
}

TEST_F(RenderStatusTest, TellsLoadAndCache) {
  sources_.status.scheduler.num_running = 3;
  sources_.status.scheduler.num_waiting = 2;
  sources_.status.scheduler.num_waiting_tokens = 77;
  sources_.status.scheduler.blocks = {.num_blocks = 10, .num_held = 4, .num_cached_free = 5};
  sources_.num_connections = 6;
  const json status = Render();
  EXPECT_EQ(status["load"], json::parse(R"({"running": 3, "max_running": 64, "waiting": 2,
      "waiting_prompt_tokens": 77, "paused": 0, "connections": 6})"));
  EXPECT_EQ(status["kv_cache"], json::parse(R"({"block_size": 16, "num_blocks": 10,
      "held_blocks": 4, "cached_blocks": 5, "shares_prefixes": true})"));
  EXPECT_EQ(status["recurrent_states"]["num_slots"], 0);
}

TEST_F(RenderStatusTest, TellsRecurrentStates) {
  model_.state_bytes = 1000;
  sources_.status.scheduler.blocks.states = {
      .num_slots = 9, .num_live = 2, .num_snapshots = 3, .num_free = 4};
  EXPECT_EQ(Render()["recurrent_states"], json::parse(R"({"bytes_each": 1000, "num_slots": 9,
      "live": 2, "snapshots": 3})"));
}

TEST_F(RenderStatusTest, CountsTokensEndsAndRefusals) {
  sources_.status.num_steps = 9;
  sources_.status.scheduler.blocks.prefix_queried_tokens = 100;
  sources_.status.scheduler.blocks.prefix_hit_tokens = 80;
  sources_.status.scheduler.num_preemptions = 1;
  engine_.prompt_tokens.Add(20);
  engine_.generated_tokens.Add(5);
  engine_.finished[0].Add(2);
  engine_.finished[1].Add();
  server_.CountRefusal(RefusalReason::kQueueFull);
  server_.CountRefusal(RefusalReason::kInvalid);
  num_ended_ = 4;
  EXPECT_EQ(Render()["counters"], json::parse(R"({"steps": 9, "prompt_tokens": 20,
      "generated_tokens": 5, "prefix_queried_tokens": 100, "prefix_hit_tokens": 80,
      "preemptions": 1, "finished": 3, "refused": 2, "ended_requests": 4})"));
}

TEST_F(RenderStatusTest, HistogramsHaveACountForEachBoundAndOneForMore) {
  engine_.time_to_first_token.Observe(0);
  engine_.time_to_first_token.Observe(1e9);
  const json histogram = Render()["time_to_first_token_seconds"];
  ASSERT_EQ(histogram["counts"].size(), histogram["bounds"].size() + 1);
  EXPECT_EQ(histogram["counts"].front(), 1);
  EXPECT_EQ(histogram["counts"].back(), 1);
}

TEST(RenderRecentRequestsTest, TellsTokensTimesAndEnds) {
  AccessEntry entry;
  entry.request_id = "chatcmpl-1";
  entry.principal = "alice";
  entry.peer = "203.0.113.7";
  entry.method = "/v1/chat/completions";
  entry.model = "demo";
  entry.total_ms = 20;
  entry.prompt_tokens = 7;
  entry.cached_tokens = 0;
  entry.generated_tokens = 2;
  entry.finish_reason = "stop";
  entry.queue_ms = 0.5;
  entry.prefill_ms = 4;
  entry.decode_ms = 9;
  const json page =
      json::parse(RenderRecentRequests({{2, absl::FromUnixMillis(1'250), std::move(entry)}}));
  EXPECT_EQ(page, json::parse(R"({"requests": [{"number": 2, "end_seconds": 1.25,
      "id": "chatcmpl-1", "principal": "alice", "surface": "openai", "model": "demo",
      "status": "OK", "finish_reason": "stop", "total_ms": 20.0, "prompt_tokens": 7,
      "cached_tokens": 0, "generated_tokens": 2, "queue_ms": 0.5, "first_token_ms": 4.5}]})"));
}

TEST(RenderRecentRequestsTest, WhatARequestNeverHadIsLeftOut) {
  AccessEntry entry;
  entry.request_id = "\xff</script>";
  entry.method = "/vllm.Inference/Generate";
  entry.status = absl::StatusCode::kResourceExhausted;
  const json request =
      json::parse(RenderRecentRequests({{1, absl::UnixEpoch(), std::move(entry)}}))["requests"][0];
  EXPECT_EQ(request["id"], "\ufffd</script>");
  EXPECT_EQ(request["status"], "RESOURCE_EXHAUSTED");
  EXPECT_FALSE(request.contains("prompt_tokens"));
  EXPECT_FALSE(request.contains("first_token_ms"));
}

}  // namespace
}  // namespace quire

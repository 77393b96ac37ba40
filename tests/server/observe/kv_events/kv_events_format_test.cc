// --kv-events-config, and the bytes of a batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/observe/kv_events/kv_event_encoding.h"
#include "server/observe/kv_events/kv_events_config.h"

namespace quire {
namespace {

using testing::HasSubstr;

TEST(KvEventsConfigTest, TakesVllmsNames) {
  const auto config = ParseKvEventsConfig(
      R"({"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://*:7",
          "replay_endpoint": "tcp://*:8", "topic": "kv@a@b", "buffer_steps": 5, "hwm": 6,
          "max_queue_size": 9})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->enabled);
  EXPECT_EQ(config->endpoint, "tcp://*:7");
  EXPECT_EQ(config->replay_endpoint, "tcp://*:8");
  EXPECT_EQ(config->topic, "kv@a@b");
  EXPECT_EQ(config->buffer_steps, 5);
  EXPECT_EQ(config->hwm, 6);
}

TEST(KvEventsConfigTest, NothingIsPublishedUnlessAskedFor) {
  EXPECT_FALSE(ParseKvEventsConfig("")->enabled);
  EXPECT_FALSE(ParseKvEventsConfig(R"({"endpoint": "tcp://*:7"})")->enabled);
  EXPECT_FALSE(
      ParseKvEventsConfig(R"({"publisher": "null", "enable_kv_cache_events": true})")->enabled);
}

TEST(KvEventsConfigTest, NamesWhatIsWrong) {
  for (const auto& [json, part] : std::vector<std::pair<const char*, const char*>>{
           {"[]", "a JSON object"},
           {"{", "a JSON object"},
           {R"({"port": 1})", "port is not known"},
           {R"({"hwm": 0})", "hwm is a number from 1"},
           {R"({"hwm": "x"})", "hwm is a number"},
           {R"({"topic": 4})", "topic is a text"},
           {R"({"enable_kv_cache_events": 1})", "true or false"},
           {R"({"publisher": "kafka"})", "publisher is \"zmq\""}}) {
    const auto config = ParseKvEventsConfig(json);
    ASSERT_FALSE(config.ok()) << json;
    EXPECT_EQ(config.status().code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(part));
  }
}

// Against the bytes that msgpack reads as
// [1.5, [["BlockStored", [1, 2**63], None, [5, 300, 70000], 3, None, "GPU", None],
//        ["BlockRemoved", [2], "GPU"], ["AllBlocksCleared"]], 0].
TEST(KvEventEncodingTest, IsVllmsMessagePack) {
  KvEventBatch batch;
  batch.time = absl::UnixEpoch() + absl::Seconds(1.5);
  KvEvent stored;
  stored.kind = KvEvent::Kind::kStored;
  stored.hashes = {1, uint64_t{1} << 63};
  stored.tokens = {5, 300, 70000};
  KvEvent removed;
  removed.kind = KvEvent::Kind::kRemoved;
  removed.hashes = {2};
  batch.events = {stored, removed, KvEvent{}};
  using namespace std::string_literals;  // NOLINT
  const std::string expected =
      "\x93\xcb\x3f\xf8\0\0\0\0\0\0\x93"s
      "\x98\xd9\x0b"s
      "BlockStored"s
      "\x92\x01\xcf\x80\0\0\0\0\0\0\0\xc0\x93\x05\xcd\x01\x2c\xce\0\x01\x11\x70\x03\xc0\xd9\x03"s
      "GPU\xc0"s
      "\x93\xd9\x0c"s
      "BlockRemoved\x91\x02\xd9\x03"s
      "GPU"s
      "\x91\xd9\x10"s
      "AllBlocksCleared\0"s;
  EXPECT_EQ(EncodeKvEvents(batch, 3), expected);
}

}  // namespace
}  // namespace quire

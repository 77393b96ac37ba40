// How a load speaks with servers: answers however they are cut, servers that break off, refuse or
// close, cancelled requests, connections.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "nlohmann/json.hpp"
#include "quire/v1/inference.pb.h"
#include "server/wire/client/grpc_messages.h"
#include "tools/bench/load/find_server.h"
#include "tools/bench/load/grpc_problem.h"
#include "tools/bench/load/load.h"
#include "tools/bench/load/openai_events.h"

namespace quire::bench {
namespace {

using ::testing::HasSubstr;

// Any port of this machine.
sockaddr_in Loopback() {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Answers each HTTP/1.1 request on each connection as `answer` says; an empty answer hangs up.
class ScriptedServer {
 public:
  using Answer = std::function<std::vector<std::string>(const std::string& request)>;

  explicit ScriptedServer(Answer answer) : answer_(std::move(answer)) {
    listener_ = UniqueFd(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address = Loopback();
    socklen_t size = sizeof(address);
    bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size);
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    listen(listener_.get(), 64);
    target_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
    thread_ = std::thread([this] { Accept(); });
  }
  ~ScriptedServer() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
    for (std::thread& one : connections_) one.join();
  }

  ServerAddress address() const { return *FindServer(target_); }

 private:
  void Accept() {
    for (;;) {
      UniqueFd fd(accept(listener_.get(), nullptr, nullptr));
      if (!fd.valid()) return;
      const int on = 1;  // else pieces wait for each other
      setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      connections_.emplace_back([this, fd = std::move(fd)] { Serve(fd.get()); });
    }
  }
  void Serve(int fd) {
    std::string bytes;
    char buffer[4096];
    for (;;) {
      size_t end = std::string::npos;
      while ((end = EndOfRequest(bytes)) == std::string::npos) {
        const ssize_t count = recv(fd, buffer, sizeof(buffer), 0);
        if (count <= 0) return;
        bytes.append(buffer, static_cast<size_t>(count));
      }
      const std::vector<std::string> pieces = answer_(bytes.substr(0, end));
      bytes.erase(0, end);
      if (pieces.empty()) return;
      for (const std::string& piece : pieces) {
        if (send(fd, piece.data(), piece.size(), MSG_NOSIGNAL) < 0) return;
      }
    }
  }
  static size_t EndOfRequest(const std::string& bytes) {
    const size_t head = bytes.find("\r\n\r\n");
    if (head == std::string::npos) return head;
    const size_t length = bytes.find("content-length: ");
    const size_t size = length < head ? std::stoul(bytes.substr(length + 16)) : 0;
    return bytes.size() < head + 4 + size ? std::string::npos : head + 4 + size;
  }

  const Answer answer_;
  UniqueFd listener_;
  std::string target_;
  std::vector<std::thread> connections_;  // of the thread, until it has ended
  std::thread thread_;
};

std::string Chunked(const std::string& body, size_t chunk_bytes) {
  std::string text =
      "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
  for (size_t i = 0; i < body.size(); i += chunk_bytes) {
    const std::string chunk = body.substr(i, chunk_bytes);
    absl::StrAppend(&text, absl::Hex(chunk.size()), "\r\n", chunk, "\r\n");
  }
  return text + "0\r\n\r\n";
}

constexpr char kStream[] =
    "data: {\"choices\": [{\"index\": 0, \"text\": \"Once\"}]}\n\n"
    ": a comment\n\n"
    "data: {\"choices\": [{\"text\": \" upon\", \"logprobs\": {\"top_logprobs\": [{\"a\": "
    "-1.5}]}}]}\r\n\r\n"
    "data: {\"choices\": [{\"text\": \"\", \"finish_reason\": \"length\"}]}\n\n"
    "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 7, \"completion_tokens\": 2, "
    "\"prompt_tokens_details\": {\"cached_tokens\": 5}}}\n\n"
    "data: [DONE]\n\n";

std::vector<std::string> Cut(const std::string& text, size_t at) {
  return {text.substr(0, at), text.substr(at)};
}

LoadResult RunAgainst(const ScriptedServer& server, int num_requests,
                      const LoadOptions& options = {}) {
  const std::vector<WorkItem> items(num_requests, {.prompt = {1, 2, 3}, .output_len = 4});
  const auto backend = MakeLoadBackend("openai", {.model = "m", .keeps_answers = true});
  return RunLoad(server.address(), *backend, items, std::vector<double>(num_requests, 0.0), options,
                 nullptr);
}

TEST(DecoderTest, AStreamMeansTheSameHoweverItIsCut) {
  const std::string text = kStream;
  const auto backend = MakeLoadBackend("openai", {.keeps_answers = true});
  for (size_t at = 0; at <= text.size(); ++at) {
    const auto decoder = backend->NewDecoder();
    AnswerSoFar answer;
    for (const std::string& piece : Cut(text, at)) decoder->Take(piece, &answer);
    ASSERT_EQ(answer.num_tokens, 2) << at;
    ASSERT_EQ(answer.text, "Once upon") << at;
    ASSERT_EQ(answer.prompt_tokens, 7) << at;
    ASSERT_EQ(answer.cached_tokens, 5) << at;
    ASSERT_EQ(answer.completion_tokens, 2) << at;
    ASSERT_EQ(answer.problem, "") << at;
  }
}

TEST(DecoderTest, ChunksOfChatsCountTheirPieces) {
  AnswerSoFar answer;
  for (
      const char* chunk :
      {R"({"choices": [{"delta": {"role": "assistant", "content": ""}}]})",
       R"({"choices": [{"delta": {"reasoning_content": "hm"}}]})",
       R"({"choices": [{"delta": {"content": "yes"}}]})",
       R"({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}}]})",
       R"({"choices": [{"delta": {}, "logprobs": {"content": [{"token": "x", "top_logprobs":
            [{"token": "content"}]}]}}]})"}) {
    TakeOpenAiChunk(chunk, /*keeps_answer=*/true, &answer);
  }
  EXPECT_EQ(answer.num_tokens, 3);
  EXPECT_EQ(answer.text, "hmyes{}");
  EXPECT_EQ(answer.problem, "");
  TakeOpenAiChunk(R"({"error": {"message": "out of memory"}})", true, &answer);
  EXPECT_EQ(answer.problem, "out of memory");
  answer.problem.clear();
  TakeOpenAiChunk("{", true, &answer);
  EXPECT_THAT(answer.problem, HasSubstr("no JSON"));
  answer.problem.clear();
  TakeOpenAiChunk(std::string(100, '['), true, &answer);
  EXPECT_THAT(answer.problem, HasSubstr("no JSON"));
}

TEST(DecoderTest, LogprobsAndIdsAreKeptIfWanted) {
  constexpr char kCompletion[] =
      R"({"choices": [{"text": "ab", "token_ids": [7, 8], "logprobs": {"token_logprobs": [null, -1.5,
         -2], "text_offset": [0, 1, 2], "top_logprobs": [{"x": -9.5}]}}]})";
  constexpr char kChat[] =
      R"({"choices": [{"delta": {"content": "c"}, "logprobs": {"content": [{"token": "c",
         "logprob": -0.25, "top_logprobs": [{"token": "d", "logprob": -8.5}]}]}}]})";
  AnswerSoFar answer, without;
  for (const char* chunk : {kCompletion, kChat}) {
    TakeOpenAiChunk(chunk, /*keeps_answer=*/true, &answer);
    TakeOpenAiChunk(chunk, /*keeps_answer=*/false, &without);
  }
  EXPECT_THAT(answer.logprobs, testing::ElementsAre(-1.5, -2, -0.25));
  EXPECT_THAT(answer.token_ids, testing::ElementsAre(7, 8));
  EXPECT_EQ(answer.problem, "");
  EXPECT_THAT(without.logprobs, testing::IsEmpty());
  EXPECT_THAT(without.token_ids, testing::IsEmpty());
}

TEST(DecoderTest, MessagesOfGrpcMeanTheSameHoweverTheyAreCut) {
  v1::GenerateResponse started, delta, finished;
  started.mutable_started()->set_prompt_tokens(9);
  delta.mutable_delta()->add_token_ids(4);
  delta.mutable_delta()->add_token_ids(5);
  finished.mutable_finished()->mutable_usage()->set_completion_tokens(2);
  std::string bytes;
  for (const auto& response : {started, delta, finished}) {
    bytes += GrpcRequest("/", response.SerializeAsString(), "", {}).body;
  }
  const auto backend = MakeLoadBackend("quire", {});
  for (size_t at = 0; at <= bytes.size(); ++at) {
    const auto decoder = backend->NewDecoder();
    AnswerSoFar answer;
    for (const std::string& piece : Cut(bytes, at)) decoder->Take(piece, &answer);
    ASSERT_EQ(answer.prompt_tokens, 9) << at;
    ASSERT_EQ(answer.num_tokens, 2) << at;
    ASSERT_EQ(answer.completion_tokens, 2) << at;
  }
  AnswerSoFar answer;
  backend->NewDecoder()->Take(std::string("\x01\0\0\0\x01x", 6), &answer);
  EXPECT_NE(answer.problem, "");
}

TEST(GrpcProblemTest, SaysWhatTheServerSaid) {
  EXPECT_EQ(GrpcProblem({.http_status = 200, .headers = {{"grpc-status", "0"}}}), "");
  EXPECT_EQ(GrpcProblem({.http_status = 200,
                         .headers = {{"grpc-status", "8"}, {"grpc-message", "full%3A 100%25%"}}}),
            "RESOURCE_EXHAUSTED: full: 100%%");
  EXPECT_EQ(GrpcProblem({.http_status = 404}), "no gRPC server answers: HTTP status 404");
  EXPECT_EQ(GrpcProblem({.http_status = 200, .problem = "the server closed the connection"}),
            "the server closed the connection");
}

TEST(LoadTest, AnswersComeWholeHoweverTheyAreCut) {
  std::atomic<size_t> at = 0;
  const std::string text = Chunked(kStream, 100);
  ScriptedServer server([&](const std::string&) { return Cut(text, at++ % text.size()); });
  const int num_requests = static_cast<int>(text.size());
  const LoadResult result = RunAgainst(server, num_requests, {.max_concurrency = 4});
  for (const RequestRecord& record : result.records) {
    ASSERT_EQ(record.outcome, Outcome::kCompleted) << record.problem;
    ASSERT_EQ(record.text, "Once upon");
    ASSERT_EQ(record.completion_tokens, 2);
    ASSERT_EQ(record.itl_ms.size(), record.num_tokens - 1u);
    ASSERT_LE(record.sent, record.first_token);
    ASSERT_LE(record.last_token, record.ended);
  }
  EXPECT_EQ(result.effort.max_in_flight, 4);
  EXPECT_EQ(result.effort.num_connections, 4);  // which are kept
}

TEST(LoadTest, EndsOfEveryKindAreUnderstood) {
  const std::string head = "HTTP/1.1 200 OK\r\n";
  ScriptedServer server([&](const std::string& request) -> std::vector<std::string> {
    if (request.find("-000000000000\r\n") !=
        std::string::npos) {  // x-request-id ends with the index
      return {head + absl::StrCat("Content-Length: ", sizeof(kStream) - 1, "\r\n\r\n") + kStream};
    }
    if (request.find("-000000000001\r\n") != std::string::npos) {
      const std::string body = R"({"error": {"message": "queue full"}})";
      return {absl::StrCat("HTTP/1.1 429 Too Many Requests\r\ncontent-length: ", body.size(),
                           "\r\n\r\n", body)};
    }
    if (request.find("-000000000002\r\n") != std::string::npos) {
      return {head + "transfer-encoding: chunked\r\n\r\nzz\r\n"};
    }
    if (request.find("-000000000003\r\n") != std::string::npos) return {"SSH-2.0-OpenSSH\r\n\r\n"};
    if (request.find("-000000000004\r\n") != std::string::npos) {
      return {"HTTP/1.1 100 Continue\r\n\r\n" + Chunked("data: {\"choices\": []}\n\n", 9)};
    }
    if (request.find("-000000000005\r\n") !=
        std::string::npos) {  // as llama-cpp-python, for another request
      return {
          Chunked("data: {\"choices\": [{\"text\": \"Once\", \"finish_reason\": null}]}\n\n"
                  "data: [DONE]\n\n",
                  50)};
    }
    return {};  // hangs up
  });
  const LoadResult result = RunAgainst(server, 7);
  const auto problem = [&](int i) { return result.records[i].problem; };
  EXPECT_EQ(result.records[0].outcome, Outcome::kCompleted) << problem(0);
  EXPECT_EQ(problem(1), "HTTP 429: queue full");
  EXPECT_THAT(problem(2), HasSubstr("malformed"));
  EXPECT_THAT(problem(3), HasSubstr("not HTTP/1.1"));
  EXPECT_EQ(problem(4), "no token came");
  EXPECT_THAT(problem(5), HasSubstr("without a finish_reason"));
  EXPECT_EQ(result.records[5].outcome, Outcome::kFailed);
  EXPECT_THAT(problem(6), HasSubstr("the server closed the connection"));
}

TEST(LoadTest, WhatServersDoNotCountAndWhyTheyStop) {
  const auto stream = [](const char* finish_reason, const std::string& usage) {
    return Chunked(absl::StrCat("data: {\"choices\": [{\"text\": \"Once\"}]}\n\n"
                                "data: {\"choices\": [{\"text\": \" upon\", \"finish_reason\": \"",
                                finish_reason, "\"}]", usage, "}\n\ndata: [DONE]\n\n"),
                   1000);
  };
  ScriptedServer server([&](const std::string& request) -> std::vector<std::string> {
    if (request.find("-000000000000\r\n") != std::string::npos) return {stream("stop", "")};
    if (request.find("-000000000002\r\n") != std::string::npos) return {stream("length", "")};
    if (request.find("-000000000003\r\n") != std::string::npos) {
      return {
          Chunked("data: {\"choices\": [{\"text\": \"\", \"finish_reason\": \"stop\"}]}\n\n", 50)};
    }
    return {stream("length", R"(, "usage": {"prompt_tokens": 7, "completion_tokens": 3})")};
  });
  const LoadResult result = RunAgainst(server, 4);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(result.records[i].outcome, Outcome::kCompleted) << result.records[i].problem;
    EXPECT_EQ(result.records[i].text, "Once upon");
    EXPECT_EQ(result.records[i].has_stopped, i == 0);
    EXPECT_EQ(result.records[i].is_counted, i != 0);
  }
  EXPECT_EQ(result.records[0].completion_tokens, 2);  // pieces
  EXPECT_EQ(result.records[1].completion_tokens, 3);  // as it says
  EXPECT_EQ(result.records[2].completion_tokens, 4);  // as many as it may have, in two pieces
  EXPECT_THAT(result.records[3].problem, HasSubstr("ended at once (finish_reason stop)"));
}

TEST(LoadTest, ChatsSayTheirLengthUnderItsOldNameToo) {
  const auto backend = MakeLoadBackend("openai-chat", {.model = "m"});
  const auto body = nlohmann::json::parse(
      backend->GenerateRequest({.text = "hi", .output_len = 4}, /*seed=*/1, "id").body);
  EXPECT_EQ(body["max_completion_tokens"], 4);
  EXPECT_EQ(body["max_tokens"], 4);
}

TEST(LoadTest, WhoNeverAnswersMeetsTheDeadline) {
  const std::string text = Chunked(kStream, 1000);
  ScriptedServer server([&](const std::string& request) -> std::vector<std::string> {
    const bool answers = request.find("-000000000001\r\n") != std::string::npos;
    return {answers ? text : text.substr(0, 150)};
  });
  const LoadResult result = RunAgainst(server, 2, {.deadline_seconds = 0.3});
  EXPECT_EQ(result.records[0].outcome, Outcome::kTimedOut);
  EXPECT_EQ(result.records[1].outcome, Outcome::kCompleted);
}

TEST(LoadTest, SomeAreCancelledAfterSomeTokens) {
  // Two tokens, and never an end: without a cancellation nothing would.
  const std::string text = Chunked(kStream, 1000).substr(0, 300);
  ScriptedServer server([&](const std::string&) -> std::vector<std::string> { return {text}; });
  const std::vector<WorkItem> items(20, {.prompt = {1}, .output_len = 2});
  const auto backend = MakeLoadBackend("openai", {});
  const LoadResult result = RunLoad(server.address(), *backend, items, std::vector<double>(20, 0.0),
                                    {.cancel_rate = 1, .seed = 5}, nullptr);
  for (const RequestRecord& record : result.records) {
    EXPECT_EQ(record.outcome, Outcome::kAbandoned);
    EXPECT_GE(record.num_tokens, 1);
  }
}

// The bodies that a server got, in the order of the turns' answers.
class Bodies {
 public:
  void Add(const std::string& request) {
    const absl::MutexLock lock(&mutex_);
    bodies_.push_back(nlohmann::json::parse(request.substr(request.find("\r\n\r\n"))));
  }
  std::vector<nlohmann::json> Take() {
    const absl::MutexLock lock(&mutex_);
    return std::exchange(bodies_, {});
  }

 private:
  absl::Mutex mutex_;
  std::vector<nlohmann::json> bodies_ ABSL_GUARDED_BY(mutex_);
};

TEST(LoadTest, ATurnComesAfterTheAnswerBeforeItAndHasIt) {
  Bodies bodies;
  ScriptedServer server([&](const std::string& request) -> std::vector<std::string> {
    bodies.Add(request);
    return {Chunked(kStream, 1000)};
  });
  std::vector<WorkItem> items = {{.text = "a"},
                                 {.text = "b", .continues = true},
                                 {.text = "c", .continues = true},
                                 {.text = "alone"}};
  const std::vector<double> due = {0, 0.05, 0, 1e-3};
  const auto completions = MakeLoadBackend("openai", {.keeps_answers = true});
  LoadResult result =
      RunLoad(server.address(), *completions, items, due, {.max_concurrency = 1}, nullptr);
  std::vector<std::string> prompts;
  for (const auto& body : bodies.Take()) prompts.push_back(body["prompt"]);
  EXPECT_THAT(prompts,
              testing::UnorderedElementsAre("a", "aOnce uponb", "aOnce uponbOnce uponc", "alone"));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(result.records[i].outcome, Outcome::kCompleted);
    EXPECT_EQ(result.records[i].turn, i % 3);
  }
  EXPECT_DOUBLE_EQ(result.records[1].scheduled, result.records[0].ended + 0.05);
  EXPECT_GE(result.records[1].sent, result.records[1].scheduled);
  EXPECT_DOUBLE_EQ(result.records[2].scheduled, result.records[1].ended);

  for (WorkItem& item : items) item.messages = {{.role = "user", .content = item.text}};
  const auto chats = MakeLoadBackend("openai-chat", {.keeps_answers = true});
  result = RunLoad(server.address(), *chats, items, {0, 0, 0, 0}, {.max_concurrency = 1}, nullptr);
  std::vector<std::string> chat;
  for (const auto& body : bodies.Take()) {
    if (body["messages"].size() < 5) continue;
    for (const auto& message : body["messages"]) {
      chat.push_back(
          absl::StrCat(std::string(message["role"]), ": ", std::string(message["content"])));
    }
  }
  EXPECT_THAT(chat, testing::ElementsAre("user: a", "assistant: Once upon", "user: b",
                                         "assistant: Once upon", "user: c"));
}

TEST(LoadTest, NothingFollowsATurnThatFailed) {
  ScriptedServer server([&](const std::string& request) -> std::vector<std::string> {
    const bool fails = request.find("\"bad\"") != std::string::npos;
    return {fails ? "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n" : Chunked(kStream, 1000)};
  });
  const std::vector<WorkItem> items = {{.text = "bad"},
                                       {.text = "b", .continues = true},
                                       {.text = "c", .continues = true},
                                       {.text = "good"},
                                       {.text = "d", .continues = true}};
  const auto backend = MakeLoadBackend("openai", {.keeps_answers = true});
  Progress progress;
  const LoadResult result =
      RunLoad(server.address(), *backend, items, std::vector<double>(5, 0.0), {}, &progress);
  std::vector<Outcome> outcomes;
  for (const RequestRecord& record : result.records) outcomes.push_back(record.outcome);
  EXPECT_THAT(outcomes, testing::ElementsAre(Outcome::kFailed, Outcome::kUnsent, Outcome::kUnsent,
                                             Outcome::kCompleted, Outcome::kCompleted));
}

TEST(LoadTest, TheTimeMayBeLimited) {
  ScriptedServer server([&](const std::string&) -> std::vector<std::string> {
    return {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"};
  });
  const std::vector<WorkItem> items(3, {.prompt = {1}, .output_len = 2});
  const LoadResult result = RunLoad(server.address(), *MakeLoadBackend("openai", {}), items,
                                    {0, 0.01, 1e6}, {.max_seconds = 0.2}, nullptr);
  EXPECT_EQ(result.records[0].outcome, Outcome::kInterrupted);
  EXPECT_EQ(result.records[1].outcome, Outcome::kInterrupted);
  EXPECT_EQ(result.records[2].outcome, Outcome::kUnsent);
}

TEST(LoadTest, NobodyListens) {
  UniqueFd closed(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = Loopback();
  socklen_t size = sizeof(address);
  bind(closed.get(), reinterpret_cast<sockaddr*>(&address), size);
  getsockname(closed.get(), reinterpret_cast<sockaddr*>(&address), &size);
  const ServerAddress server = *FindServer(absl::StrCat("127.0.0.1:", ntohs(address.sin_port)));
  for (const char* name : kBackendNames) {
    const auto backend = MakeLoadBackend(name, {});
    const auto body = Fetch(server, *backend, backend->ModelRequest());
    EXPECT_EQ(body.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(body.status().message()), HasSubstr("nothing listens there"));
  }
}

}  // namespace
}  // namespace quire::bench

// The decisions of the client program without a server: addresses, contradicting flags, chat input,
// history, saved conversations, what it says about failures, and how it prints.

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "CLI/CLI.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tools/client/chat/chat_input.h"
#include "tools/client/chat/conversation.h"
#include "tools/client/chat/history_file.h"
#include "tools/client/constraint_flags.h"
#include "tools/client/failure.h"
#include "tools/client/messages_file.h"
#include "tools/client/output/json_output.h"
#include "tools/client/output/logprob_table.h"
#include "tools/client/output/terminal_text.h"
#include "tools/client/prompt_flags.h"
#include "tools/client/target.h"

namespace quire::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A folder of its own for each test.
class ClientFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/client_test_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
  }
  std::string folder_;
};
using MessagesFile = ClientFiles;
using History = ClientFiles;

TEST(Target, TakesTheUsualForms) {
  const std::pair<const char*, const char*> cases[] = {
      {"127.0.0.1:9000", "127.0.0.1:9000"}, {"gpu-1.example.org", "gpu-1.example.org:8000"},
      {"http://gpu_1", "gpu_1:8000"},       {"HTTP://host:80/", "host:80"},
      {"grpc://host:1", "host:1"},          {"[::1]", "[::1]:8000"},
      {"[::1]:8001", "[::1]:8001"},         {"http://[fe80::1%eth0]:65535", "[fe80::1%eth0]:65535"},
  };
  for (const auto& [text, expected] : cases) {
    const auto target = ParseTarget(text);
    ASSERT_TRUE(target.ok()) << target.status();
    EXPECT_EQ(*target, expected);
  }
}

TEST(Target, TlsIsAskedForByTheScheme) {
  EXPECT_EQ(*ParseTarget("https://host"), "https://host:8000");
  EXPECT_EQ(*ParseTarget("grpcs://[::1]:9/"), "https://[::1]:9");
}

TEST(Target, SaysWhatToWriteForAnythingElse) {
  for (const char* text :
       {"",          ":8000",       "host:",       "host:0",         "host:65536",
        "host:-1",   "host:+1",     "host:8000x",  "host: 80",       "a b",
        "::1",       "::1:8000",    "[::1",        "[]:80",          "[host]:80",
        "[::1]8000", "[::1]:",      "http://",     "http://host/v1", "ftp://h",
        "user@host", "host:8000:1", "h\xc3\xb6st", "host\n"}) {
    const auto target = ParseTarget(text);
    ASSERT_FALSE(target.ok()) << text;
    EXPECT_THAT(std::string(target.status().message()), HasSubstr("write HOST:PORT")) << text;
  }
}

TEST(Target, FlagWinsOverEnvironmentOverDefault) {
  const auto parse = [](std::vector<std::string> reversed_args) {
    std::string target;
    CLI::App app;
    AddTargetFlag(app, &target);
    app.parse(reversed_args);
    return target;
  };
  unsetenv("QUIRE_TARGET");
  EXPECT_EQ(parse({}), "127.0.0.1:8000");
  setenv("QUIRE_TARGET", "http://there", 1);
  EXPECT_EQ(parse({}), "there:8000");
  EXPECT_EQ(parse({"here:1", "--target"}), "here:1");
  setenv("QUIRE_TARGET", "a:b:c", 1);
  EXPECT_EQ(parse({"here:1", "--target"}), "here:1");
  try {
    parse({});
    ADD_FAILURE() << "a malformed address passed";
  } catch (const CLI::ValidationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("QUIRE_TARGET"));
  }
  unsetenv("QUIRE_TARGET");
}

TEST(Target, IsThatOfTheServerBesideUsIfItLeftItsAddress) {
  const auto parse = [] {
    std::string target;
    CLI::App app;
    AddTargetFlag(app, &target);
    app.parse(std::vector<std::string>());
    return target;
  };
  const std::string path = testing::TempDir() + "quire_address";
  std::filesystem::remove(path);
  setenv("QUIRE_ADDRESS_FILE", path.c_str(), 1);
  EXPECT_EQ(parse(), "127.0.0.1:8000");
  std::ofstream(path) << "0.0.0.0:9123\n";
  EXPECT_EQ(parse(), "0.0.0.0:9123");
  std::ofstream(path) << "[::]:9123\n";
  EXPECT_EQ(parse(), "[::]:9123");
  setenv("QUIRE_TARGET", "there:1", 1);
  EXPECT_EQ(parse(), "there:1");
  unsetenv("QUIRE_TARGET");
  std::ofstream(path) << std::string(10000, 'x');
  EXPECT_THROW(parse(), CLI::ValidationError);
  unsetenv("QUIRE_ADDRESS_FILE");
  std::filesystem::remove(path);
}

TEST(PromptFlags, NameBothFlagsThatContradictEachOther) {
  const auto problem = [](const PromptFlags& flags) {
    return std::string(CheckPromptFlags(flags).message());
  };
  EXPECT_THAT(problem({.argument = "a", .prompt = "b"}),
              AllOf(HasSubstr("argument"), HasSubstr("--prompt")));
  EXPECT_THAT(problem({.prompt = "a", .message = "b"}),
              AllOf(HasSubstr("--prompt"), HasSubstr("--message ")));
  EXPECT_THAT(problem({.prompt = "a", .messages_file = "b"}), HasSubstr("--messages"));
  EXPECT_THAT(problem({.message = "a", .token_ids = {1}}), HasSubstr("--token-ids"));
  EXPECT_THAT(problem({.system = "a"}), HasSubstr("--system needs --message"));
  EXPECT_THAT(problem({.prompt = "a", .system = "b"}), HasSubstr("--system needs --message"));
  EXPECT_THAT(problem({.system = "a", .messages_file = "b"}),
              AllOf(HasSubstr("--system"), HasSubstr("--messages")));
  EXPECT_THAT(problem({.prompt = "a", .template_kwargs = "{}"}),
              HasSubstr("--template-kwargs needs"));
  EXPECT_THAT(problem({.message = "a", .template_kwargs = "[]"}), HasSubstr("JSON object"));
  EXPECT_THAT(problem({.message = "\xff"}), HasSubstr("UTF-8"));
  EXPECT_EQ(problem({}), "");
  EXPECT_EQ(problem({.message = "a", .system = "b", .template_kwargs = "{}"}), "");
}

TEST(PromptFlags, FillTheRequest) {
  v1::GenerateRequest request;
  ASSERT_TRUE(ApplyPromptFlags({.argument = "Once"}, &request).ok());
  EXPECT_EQ(request.text().text(), "Once");
  ASSERT_TRUE(ApplyPromptFlags({.message = "Hi", .system = "Be brief"}, &request).ok());
  ASSERT_EQ(request.messages().messages_size(), 2);
  EXPECT_EQ(request.messages().messages(0).role(), "system");
  EXPECT_EQ(request.messages().messages(1).content(), "Hi");
  ASSERT_TRUE(ApplyPromptFlags({.token_ids = {3, 4}}, &request).ok());
  EXPECT_THAT(request.token_ids().ids(), ElementsAre(3, 4));
  ASSERT_TRUE(ApplyPromptFlags({.prompt = ""}, &request).ok());  // given, if empty: not stdin
  EXPECT_TRUE(request.has_text());
}

using Constraints = ClientFiles;

TEST_F(Constraints, FillTheRequest) {
  Write("schema.json", "{\"type\": \"object\"}\n");
  Write("answer.gbnf", "root ::= \"yes\"");
  const auto filled = [](const ConstraintFlags& flags) {
    v1::GenerateRequest request;
    const absl::Status status = ApplyConstraintFlags(flags, &request);
    EXPECT_TRUE(status.ok()) << status;
    return request;
  };
  EXPECT_EQ(filled({}).constraint_case(), v1::GenerateRequest::CONSTRAINT_NOT_SET);
  EXPECT_EQ(filled({.schema_file = Path("schema.json")}).json_schema(), "{\"type\": \"object\"}\n");
  EXPECT_EQ(filled({.regex = ""}).constraint_case(), v1::GenerateRequest::kRegex);
  EXPECT_EQ(filled({.regex = "a*"}).regex(), "a*");
  EXPECT_EQ(filled({.grammar_file = Path("answer.gbnf")}).grammar(), "root ::= \"yes\"");
  EXPECT_THAT(filled({.choices = {"yes", "no"}}).choice().choices(), ElementsAre("yes", "no"));
}

TEST_F(Constraints, SayWhatIsWrong) {
  Write("broken.json", "{\"type\": ");
  Write("latin.gbnf", "root ::= \"\xe4\"");
  const auto problem = [](const ConstraintFlags& flags) {
    v1::GenerateRequest request;
    return std::string(ApplyConstraintFlags(flags, &request).message());
  };
  EXPECT_THAT(problem({.schema_file = Path("broken.json")}), HasSubstr("broken.json: is not JSON"));
  EXPECT_THAT(problem({.schema_file = Path("none.json")}), HasSubstr("none.json: cannot be read"));
  EXPECT_THAT(problem({.schema_file = folder_}), HasSubstr("is a folder, not a JSON file"));
  EXPECT_THAT(problem({.grammar_file = Path("latin.gbnf")}), HasSubstr("is not UTF-8"));
  EXPECT_EQ(problem({.regex = "\xe4"}), "--regex is not UTF-8");
  EXPECT_EQ(problem({.choices = {"\xe4"}}), "--choice is not UTF-8");
  EXPECT_EQ(problem({.regex = "a", .choices = {"b"}}),
            "--regex and --choice contradict each other; give one of them");
}

TEST(ChatInput, CommandsMessagesAndMistakes) {
  const auto is = [](const char* typed, ChatAction action, const std::string& text) {
    const ChatInput input = ParseChatInput(typed);
    EXPECT_EQ(input.action, action) << typed;
    EXPECT_EQ(input.text, text) << typed;
  };
  is("", ChatAction::kNothing, "");
  is("  \t", ChatAction::kNothing, "");
  is(" Hello ", ChatAction::kMessage, "Hello");
  is("two\nlines", ChatAction::kMessage, "two\nlines");
  is("/help", ChatAction::kHelp, "");
  is("/clear", ChatAction::kClear, "");
  is("/quit ", ChatAction::kQuit, "");
  is("/exit", ChatAction::kQuit, "");
  is("/system  Be brief. ", ChatAction::kSystem, "Be brief.");
  is("/system", ChatAction::kSystem, "");
  is("/save my chat.json", ChatAction::kSave, "my chat.json");
  is("/etc/passwd is what?", ChatAction::kMessage, "/etc/passwd is what?");
  is("/quit\nis a command", ChatAction::kMessage, "/quit\nis a command");
  is("\"\"\"/quit\"\"\"", ChatAction::kMessage, "/quit");
  EXPECT_THAT(ParseChatInput("/hlep").text, HasSubstr("did you mean /help?"));
  EXPECT_THAT(ParseChatInput("/xyzzyxyzzy").text, HasSubstr("/help lists"));
  EXPECT_THAT(ParseChatInput("/save").text, HasSubstr("file name"));
  EXPECT_THAT(ParseChatInput("/clear all").text, HasSubstr("alone"));
}

TEST(ChatInput, BlocksRunToTheirClosingQuotes) {
  EXPECT_FALSE(IsOpenBlock("hello"));
  EXPECT_FALSE(IsOpenBlock("say \"\"\" aloud"));
  EXPECT_TRUE(IsOpenBlock("\"\"\""));
  EXPECT_TRUE(IsOpenBlock(" \"\"\"\"\""));  // five quotes do not close
  EXPECT_TRUE(IsOpenBlock("\"\"\"first\nsecond"));
  EXPECT_FALSE(IsOpenBlock("\"\"\"first\nsecond\"\"\" "));
  EXPECT_FALSE(IsOpenBlock("\"\"\"\"\"\""));
  EXPECT_EQ(ParseChatInput("\"\"\"\n  indented\n\nlast\n\"\"\"").text, "  indented\n\nlast");
  EXPECT_EQ(ParseChatInput("\"\"\"\"\"\"").action, ChatAction::kNothing);
  EXPECT_EQ(ParseChatInput("\"\"\"\n \n\"\"\"").action, ChatAction::kNothing);
}

TEST(ConversationTest, KeepsTheSystemMessageFirst) {
  Conversation conversation;
  conversation.AddUser("a");
  conversation.AddAssistant("b");
  EXPECT_FALSE(conversation.HasSystem());
  conversation.SetSystem("s");
  conversation.SetSystem("t");
  ASSERT_EQ(conversation.messages().messages_size(), 3);
  EXPECT_EQ(conversation.messages().messages(0).content(), "t");
  conversation.AddUser("c");
  conversation.TakeBackLast();
  EXPECT_EQ(conversation.messages().messages(2).content(), "b");
  conversation.Clear();
  EXPECT_TRUE(conversation.HasSystem());
  EXPECT_FALSE(conversation.HasTurns());
  conversation.SetSystem("");
  EXPECT_EQ(conversation.messages().messages_size(), 0);
}

TEST_F(MessagesFile, ComesBackAsItWasSaved) {
  v1::Messages messages;
  for (const char* content : {"line\nbreak \"quoted\"",
                              "Gr\xc3\xbc\xc3\x9f"
                              "e"}) {
    v1::Message* message = messages.add_messages();
    message->set_role("user");
    message->set_content(content);
  }
  ASSERT_TRUE(WriteMessages(Path("a.json"), messages).ok());
  ASSERT_TRUE(WriteMessages(Path("a.json"), messages).ok());  // its own file may be replaced
  const auto read = ReadMessages(Path("a.json"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->SerializeAsString(), messages.SerializeAsString());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(MessagesFile, ReplacesNoOtherFileAndLeavesNothingHalfWritten) {
  v1::Messages messages;
  messages.add_messages()->set_role("user");
  Write("notes.txt", "mine");
  EXPECT_FALSE(WriteMessages(Path("notes.txt"), messages).ok());
  EXPECT_FALSE(WriteMessages(folder_, messages).ok());
  EXPECT_FALSE(WriteMessages(Path("no/such/folder.json"), messages).ok());
  std::string text;
  std::getline(std::ifstream(Path("notes.txt")), text);
  EXPECT_EQ(text, "mine");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(MessagesFile, SaysWhatIsWrongWithAFile) {
  const auto problem = [&](const std::string& text) {
    Write("m.json", text);
    return std::string(ReadMessages(Path("m.json")).status().message());
  };
  EXPECT_THAT(problem(""), HasSubstr("not JSON"));
  EXPECT_THAT(problem("[\"\xff\"]"), HasSubstr("not JSON"));
  EXPECT_THAT(problem("{}"), HasSubstr("array"));
  EXPECT_THAT(problem("[]"), HasSubstr("no message"));
  EXPECT_THAT(problem(R"([{"role":"user","content":"a"},{"content":"b"}])"),
              AllOf(HasSubstr("message 2"), HasSubstr("role")));
  EXPECT_THAT(std::string(ReadMessages(Path("none")).status().message()), HasSubstr("none"));
  EXPECT_THAT(std::string(ReadMessages(folder_).status().message()), HasSubstr("folder"));
}

TEST_F(History, IsPrivateBoundedAndOutlivesDamage) {
  const std::string path = Path("state/quire/history");
  HistoryFile history(path);
  EXPECT_TRUE(history.Load().empty());
  history.Append("first\nwith a break");
  history.Append(std::string(HistoryFile::kMaxEntryBytes + 1, 'x'));  // too long to keep
  history.Append("second");
  EXPECT_THAT(history.Load(), ElementsAre("first\nwith a break", "second"));
  struct stat info = {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  chmod(path.c_str(), 0644);
  std::ofstream(path, std::ios::app) << "not JSON\n{}\n\"half";
  EXPECT_THAT(history.Load(), ElementsAre("first\nwith a break", "second"));

  std::ofstream file(path, std::ios::trunc);
  for (size_t i = 0; i < 2 * HistoryFile::kMaxEntries + 1; ++i) file << "\"" << i << "\"\n";
  file.close();
  EXPECT_EQ(history.Load().size(), HistoryFile::kMaxEntries);
  EXPECT_EQ(history.Load().back(), std::to_string(2 * HistoryFile::kMaxEntries));
  std::ifstream again(path);
  EXPECT_EQ(std::count(std::istreambuf_iterator<char>(again), {}, '\n'),
            static_cast<int64_t>(HistoryFile::kMaxEntries));
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(History, WorksWhereItCannotBeWritten) {
  HistoryFile nowhere("");
  nowhere.Append("a");
  EXPECT_TRUE(nowhere.Load().empty());
  Write("file", "");
  HistoryFile blocked(Path("file/quire/history"));  // its folder cannot be made
  blocked.Append("a");
  EXPECT_TRUE(blocked.Load().empty());
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  HistoryFile pipe(Path("pipe"));  // must not wait for somebody at the other end
  pipe.Append("a");
  EXPECT_TRUE(pipe.Load().empty());
}

TEST(Failure, HintsOnlyWhereTheyApply) {
  const auto describe = [](absl::StatusCode code, const char* message) {
    return DescribeFailure(absl::Status(code, message), "host:8000");
  };
  using absl::StatusCode;
  EXPECT_THAT(
      describe(
          StatusCode::kUnavailable,
          "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to "
          "connect to remote host: Connection refused"),
      AllOf(HasSubstr("Is a server running"), HasSubstr("host:8000"), HasSubstr("--target")));
  EXPECT_THAT(describe(StatusCode::kUnavailable,
                       "DNS resolution failed for host:8000: C-ares status is not ARES_SUCCESS "
                       "qtype=A name=host is_balancer=0: Domain name not found"),
              HasSubstr("host name of host:8000 is unknown"));
  EXPECT_THAT(describe(StatusCode::kUnavailable,
                       "failed to connect to all addresses; last error: UNAVAILABLE: "
                       "ipv4:127.0.0.1:8124: Failed parsing HTTP/2"),
              HasSubstr("not a Quire gRPC server"));
  const std::string draining =
      describe(StatusCode::kUnavailable, "the server is shutting down; retry elsewhere");
  EXPECT_EQ(draining, "UNAVAILABLE: the server is shutting down; retry elsewhere");
  EXPECT_THAT(describe(StatusCode::kUnimplemented, ""), HasSubstr("another gRPC server"));
  EXPECT_EQ(describe(StatusCode::kInvalidArgument, "a\nb\x1b"), "INVALID_ARGUMENT: a; b^[");
  EXPECT_EQ(FailureExitCode({StatusCode::kUnavailable, ""}), 69);
  EXPECT_EQ(FailureExitCode({StatusCode::kInvalidArgument, ""}), 1);
}

TEST(TerminalText, LetsNoControlCharacterThrough) {
  EXPECT_EQ(TerminalSafe("a\tb\n\x1b]0;title\x07"), "a\tb\n^[]0;title^G");
  EXPECT_EQ(TerminalSafe("\x7f\r"), "^?^M");
  EXPECT_EQ(TerminalSafe("\xc2\x9b"
                         "1m"),
            "<U+009B>1m");  // CSI in one character
  EXPECT_EQ(TerminalSafe("\xff"), "\xef\xbf\xbd");
  EXPECT_EQ(TerminalSafe("Gr\xc3\xbc\xc3\x9f"
                         "e"),
            "Gr\xc3\xbc\xc3\x9f"
            "e");
  EXPECT_EQ(Quoted("a\"\\\n\x01\xff"), R"("a\"\\\n\u0001\xff")");
  EXPECT_EQ(DisplayWidth("\xe4\xbd\xa0\xc3\xbc"), 3U);  // one wide character, one narrow
}

TEST(JsonOutput, HasNumbersForAllIntegers) {
  v1::GetStatusResponse status;
  status.set_kv_blocks_total(int64_t{1} << 40);
  status.set_draining(true);
  const auto json = MessageToJson(status);
  EXPECT_EQ(json["kv_blocks_total"].dump(), "1099511627776");
  EXPECT_EQ(json["steps"].dump(), "0");
  EXPECT_EQ(json["draining"].dump(), "true");
  v1::GetModelResponse model;
  model.add_eos_token_ids(7);
  EXPECT_EQ(MessageToJson(model)["eos_token_ids"].dump(), "[7]");
  v1::Finished finished;
  finished.mutable_usage()->set_prompt_tokens(5);
  EXPECT_EQ(MessageToJson(finished)["usage"]["prompt_tokens"].dump(), "5");
  EXPECT_FALSE(MessageToJson(finished).contains("matched_token_id"));
}

TEST(LogprobTableTest, ShowsTokensAlternativesAndTheFirstWithout) {
  std::vector<v1::TokenLogprob> tokens(2);
  tokens[0].set_token_id(7);
  tokens[0].set_token_bytes("a\n");
  tokens[1].set_token_id(8);
  tokens[1].set_token_bytes(" \xF0\x9F");
  tokens[1].set_logprob(-0.25F);
  tokens[1].set_rank(2);
  v1::TopLogprob* top = tokens[1].add_top();
  top->set_token_bytes("x");
  top->set_logprob(-0.5F);
  const std::string table = LogprobTable("Logprobs", tokens);
  EXPECT_THAT(table, HasSubstr("7  \"a\\n\""));
  EXPECT_THAT(table, HasSubstr("8  \" \\xf0\\x9f\"   -0.2500"));
  EXPECT_THAT(table, HasSubstr("-0.2500      2  \"x\" -0.5000\n"));
  EXPECT_THAT(LogprobTable("Logprobs", {tokens[0]}), Not(HasSubstr("alternatives")));
}

}  // namespace
}  // namespace quire::client

// Command lines with commands: what is said about mistakes, the man page, completion scripts.

#include "CLI/CLI.hpp"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/cli/command_line.h"
#include "tools/cli/completion.h"
#include "tools/cli/man_page.h"

namespace quire::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Program : public ::testing::Test {
 protected:
  void SetUp() override {
    CLI::App* fetch = app_.add_subcommand("fetch", "Get a thing");
    fetch->add_option("--count", count_, "How many; it's [optional]");
    fetch->add_option("--from", file_, "Where from")->type_name("FILE");
    fetch->add_flag("--fast", fast_, "No waiting");
    app_.add_subcommand("flush", "Empty it");
    CLI::App* pass = app_.add_subcommand("pass", "Passes its flags on");
    pass->allow_extras();
    app_.add_subcommand("completion", "Script")->add_option("shell", shell_, "bash, zsh or fish");
    text_.name = "prog";
    text_.version = "1.2";
    text_.one_line = "do things";
    text_.paragraph = "Does things.";
    text_.sections = {{"Examples", {{"prog 'a\\b'", "one"}}}};
    text_.see_also = "other(1)";
    DescribeProgram(app_, text_);
  }

  // Returns what the program prints on standard error, and expects its exit code: -1 when a command
  // is to run.
  std::string Parse(const std::vector<std::string>& args, int expected_code) {
    ::testing::internal::CaptureStderr();
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(ParseCommandLine(app_, args).value_or(-1), expected_code);
    printed_ = ::testing::internal::GetCapturedStdout();
    return ::testing::internal::GetCapturedStderr();
  }

  CLI::App app_;
  ProgramText text_;
  int count_ = 0;
  bool fast_ = false;
  std::string file_, shell_, printed_;
};

TEST_F(Program, NamesTheNearestCommandOrFlag) {
  EXPECT_EQ(Parse({"fetsh"}, 64), "prog: unknown command \"fetsh\"; did you mean fetch?\n");
  EXPECT_EQ(Parse({"qqqqqqqq"}, 64), "prog: unknown command \"qqqqqqqq\"; see prog --help\n");
  EXPECT_EQ(Parse({"fetch", "--cuont=3"}, 64),
            "prog: unknown flag --cuont; did you mean --count?\n");
  EXPECT_EQ(Parse({"--count", "3", "fetch"}, 64),
            "prog: --count goes after the command: prog fetch --count ...\n");
  EXPECT_EQ(Parse({"--cuont"}, 64), "prog: unknown flag --cuont; did you mean --count?\n");
  EXPECT_THAT(Parse({"fetch", "thing"}, 64), HasSubstr("unexpected argument \"thing\""));
  EXPECT_EQ(Parse({"pass", "--whatever"}, -1), "");
}

TEST_F(Program, SaysWhichValueIsWrongInOneLine) {
  for (const auto& args : std::vector<std::vector<std::string>>{
           {"fetch", "--count", "x"}, {"fetch", "--count"}, {"fetch", "--fast=maybe"}}) {
    const std::string said = Parse(args, 64);
    EXPECT_THAT(said, HasSubstr(args[1].substr(0, args[1].find('='))));
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  }
  EXPECT_EQ(Parse({"fetch", "--count", "3"}, -1), "");
  EXPECT_EQ(count_, 3);
}

TEST_F(Program, HelpVersionAndNothing) {
  Parse({"--version"}, 0);
  EXPECT_EQ(printed_, "prog 1.2\n");
  Parse({"help"}, 0);
  EXPECT_THAT(printed_, AllOf(HasSubstr("fetch"), HasSubstr("Examples:")));
  EXPECT_THAT(printed_, Not(HasSubstr("--help-man")));
  Parse({"help", "fetch"}, 0);
  EXPECT_THAT(printed_, HasSubstr("--count"));
  EXPECT_EQ(Parse({"help", "fetsh"}, 64), "prog: unknown command \"fetsh\"; did you mean fetch?\n");
  const std::string said = Parse({}, 64);
  EXPECT_EQ(said, "prog: no command given; the commands are fetch, flush, pass, completion\n");
  EXPECT_THAT(printed_, HasSubstr("Usage"));
}

TEST_F(Program, ManPageHasTheSameDeclarations) {
  Parse({"--help-man"}, 0);
  EXPECT_THAT(printed_, HasSubstr(".TH PROG 1 "));
  EXPECT_THAT(printed_, HasSubstr("\n.SS prog fetch\nGet a thing.\n"));
  EXPECT_THAT(printed_,
              HasSubstr("\\fB\\-\\-count\\fR \\fIINT\\fR\nHow many; it\\(aqs [optional]"));
  EXPECT_THAT(printed_, HasSubstr("\\fBprog \\(aqa\\eb\\(aq\\fR"));
  EXPECT_THAT(printed_, HasSubstr(".SH SEE ALSO\nother(1)"));
  setenv("SOURCE_DATE_EPOCH", "86400", 1);
  EXPECT_THAT(ManPage(app_, text_), HasSubstr("\"1970-01-02\""));
  unsetenv("SOURCE_DATE_EPOCH");
}

TEST_F(Program, CompletionKnowsCommandsFlagsAndFiles) {
  const std::string bash = CompletionScript(app_, "bash");
  EXPECT_THAT(bash, HasSubstr("fetch) words=\"--help -h --count --from --fast\""));
  EXPECT_THAT(bash, HasSubstr("completion) words=\"bash zsh fish --help"));
  EXPECT_THAT(bash, HasSubstr("fetch:--from) mapfile"));
  EXPECT_THAT(bash, HasSubstr("fetch:--count) return"));
  const std::string zsh = CompletionScript(app_, "zsh");
  EXPECT_THAT(zsh, HasSubstr("'*--count[How many; it'\\''s \\[optional\\]]:value:'"));
  const std::string fish = CompletionScript(app_, "fish");
  EXPECT_THAT(fish, HasSubstr("-l count -x -d 'How many; it\\'s [optional]'"));
  EXPECT_THAT(fish, HasSubstr("-l from -r -F"));
  for (const std::string& shell : CompletionShells()) {
    EXPECT_THAT(CompletionScript(app_, shell), Not(HasSubstr("help-man"))) << shell;
  }
  EXPECT_EQ(CompletionScript(app_, "tcsh"), "");
}

}  // namespace
}  // namespace quire::cli

#include "tools/client/prompt_flags.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/json/parse_json.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/text/utf8.h"
#include "tools/client/messages_file.h"

namespace quire::client {

namespace {

absl::Status Problem(const std::string& problem) { return absl::InvalidArgumentError(problem); }

void AddMessage(const char* role, const std::string& content, v1::Messages* messages) {
  v1::Message* message = messages->add_messages();
  message->set_role(role);
  message->set_content(content);
}

absl::Status CheckText(const PromptFlags& flags) {
  const std::optional<std::string> texts[] = {flags.argument, flags.prompt, flags.message,
                                              flags.system};
  const char* const names[] = {"the prompt", "--prompt", "--message", "--system"};
  for (size_t i = 0; i < std::size(texts); ++i) {
    if (texts[i] && !IsValidUtf8(*texts[i]))
      return Problem(absl::StrCat(names[i], " is not UTF-8"));
  }
  if (!flags.template_kwargs) return absl::OkStatus();
  const auto json = ParseJson(*flags.template_kwargs);
  if (json.is_object()) return absl::OkStatus();
  return Problem(
      "--template-kwargs takes a JSON object, for example '{\"enable_thinking\": false}'");
}

absl::Status ApplyMessages(const PromptFlags& flags, v1::Messages* messages) {
  if (flags.messages_file) {
    absl::StatusOr<v1::Messages> read = ReadMessages(*flags.messages_file);
    if (!read.ok()) return Problem(absl::StrCat("--messages ", read.status().message()));
    *messages = *std::move(read);
  } else {
    if (flags.system) AddMessage("system", *flags.system, messages);
    AddMessage("user", *flags.message, messages);
  }
  if (flags.template_kwargs) messages->set_template_kwargs_json(*flags.template_kwargs);
  return absl::OkStatus();
}

}  // namespace

void AddPromptFlags(CLI::App& command, PromptFlags* flags) {
  command.add_option("prompt", flags->argument,
                     "Text to complete, as --prompt; without any, standard input is read");
  command.add_option("--prompt", flags->prompt, "Text to complete as it stands");
  command.add_option("--message", flags->message, "Message to answer, with the chat template");
  command.add_option("--system", flags->system, "System message before --message");
  command
      .add_option("--messages", flags->messages_file,
                  "JSON file with an array of {\"role\", \"content\"}; quire chat saves such")
      ->type_name("FILE");
  command.add_option("--template-kwargs", flags->template_kwargs,
                     "JSON object of variables for the chat template");
  command.add_option("--token-ids", flags->token_ids, "Prompt as token ids: 1,2,3")
      ->delimiter(',')
      ->allow_extra_args(false);
}

absl::Status CheckPromptFlags(const PromptFlags& flags) {
  std::vector<std::string> given;
  if (flags.argument) given.emplace_back("a prompt as an argument");
  if (flags.prompt) given.emplace_back("--prompt");
  if (flags.message) given.emplace_back("--message");
  if (flags.messages_file) given.emplace_back("--messages");
  if (!flags.token_ids.empty()) given.emplace_back("--token-ids");
  if (given.size() > 1) {
    return Problem(
        absl::StrCat(given[0], " and ", given[1], " contradict each other; give one of them"));
  }
  if (flags.system && !flags.message) {
    return Problem(flags.messages_file
                       ? "--system and --messages contradict each other; put the system message "
                         "into the file"
                       : "--system needs --message, the message to answer");
  }
  if (flags.template_kwargs && !flags.message && !flags.messages_file) {
    return Problem(
        "--template-kwargs needs --message or --messages: nothing else is put into the "
        "chat template");
  }
  return CheckText(flags);
}

absl::Status ApplyPromptFlags(const PromptFlags& flags, v1::GenerateRequest* request) {
  if (flags.messages_file || flags.message) {
    return ApplyMessages(flags, request->mutable_messages());
  }
  if (!flags.token_ids.empty()) {
    for (const uint32_t id : flags.token_ids) request->mutable_token_ids()->add_ids(id);
    return absl::OkStatus();
  }
  if (flags.argument || flags.prompt) {
    request->mutable_text()->set_text(flags.argument ? *flags.argument : *flags.prompt);
    return absl::OkStatus();
  }
  const std::string text = ReadStandardInput("the prompt");
  if (text.empty()) {
    return Problem("no prompt: give one as an argument, with --message, or on standard input");
  }
  if (!IsValidUtf8(text)) return Problem("the prompt on standard input is not UTF-8");
  request->mutable_text()->set_text(text);
  return absl::OkStatus();
}

std::string ReadStandardInput(const std::string& what) {
  const bool terminal = isatty(STDIN_FILENO) != 0;
  if (terminal) {
    std::fprintf(stderr, "quire: reading %s from the terminal; Ctrl-D on an empty line ends it\n",
                 what.c_str());
  }
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  if (terminal && absl::EndsWith(text, "\n")) text.pop_back();
  return text;
}

}  // namespace quire::client

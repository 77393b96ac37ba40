// The flags of dataset.h.

#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "tools/bench/command_line.h"
#include "tools/bench/failure.h"
#include "tools/bench/serve/dataset.h"

namespace quire::bench {

namespace {

constexpr char kGroup[] = "Workload";

void AddPrefixFlags(CLI::App& command, DatasetFlags* flags) {
  FlagGroup add(command, kGroup);
  add.Count("--prefix-repetition-num-prefixes,--gsp-num-groups", &flags->num_prefixes, 1,
            kMaxLength, "Of prefix_repetition (default: 10)");
  add.Count("--prefix-repetition-prefix-len,--gsp-system-prompt-len", &flags->prefix_len, 1,
            kMaxLength, "Tokens (default: 256)");
  add.Count("--prefix-repetition-suffix-len,--gsp-question-len", &flags->suffix_len, 1, kMaxLength,
            "Tokens (default: 256)");
  add.Count("--prefix-repetition-output-len,--gsp-output-len", &flags->prefix_output_len, 1,
            kMaxLength, "Tokens (default: 128)");
}

void AddConversationFlags(CLI::App& command, ConversationFlags* flags) {
  FlagGroup add(command, kGroup);
  add.Real("--conversation-turn-mean", &flags->turn_mean, 1, 1e4,
           "Turns of each random conversation, each with --input-len new tokens, sent after the "
           "answer before it and with all that came before (default: 1)");
  add.Real("--conversation-turn-stddev", &flags->turn_stddev, 0, 1e4,
           "Their standard deviation (default: 0)");
  add.Count("--max-turns", &flags->max_turns, 1, kMaxLength,
            "Turns of a conversation at most (default: of sharegpt's only the first)");
  add.Real("--conversation-turn-delay-mean", &flags->delay_mean_ms, 0, 1e9,
           "Milliseconds from an answer to the next turn (default: 0)");
  add.Real("--conversation-turn-delay-stddev", &flags->delay_stddev_ms, 0, 1e9,
           "Their standard deviation (default: 0)");
}

void AddTraceFlags(CLI::App& command, DatasetFlags* flags) {
  FlagGroup add(command, kGroup);
  add.Text("--trace-file", &flags->trace_file, "FILE",
           "Send each request at its time in this file (the dataset timed_trace): JSON lines "
           "with a timestamp, as Mooncake's, or a CSV file of Azure's or BurstGPT's");
  add.Real("--trace-speedup", &flags->trace_speedup, 1e-6, 1e6,
           "The trace's times pass so many times as fast (default: 1)");
  add.OneOf("--trace-time-unit", &flags->trace_time_unit, {"ms", "s"},
            "Of timestamps in JSON lines: ms or s (default: ms)");
  add.Count("--trace-block-size,--timed-trace-chunk-hash-size", &flags->trace_block_size, 1,
            kMaxLength, "Prompt tokens that one of a trace's hash_ids stands for (default: 512)");
}

bool IsFile(const DatasetFlags& flags) {
  return flags.name == "sharegpt" || flags.name == "custom" || flags.is_timed();
}

absl::Status CheckConversations(const DatasetFlags& flags) {
  const ConversationFlags& conversation = flags.conversation;
  const bool is_random = flags.name == "random", is_sharegpt = flags.name == "sharegpt";
  if ((conversation.turn_mean > 1 || conversation.turn_stddev > 0) && !is_random) {
    return UsageError(absl::StrCat("--conversation-turn-mean goes with random prompts, not with ",
                                   flags.name, is_sharegpt ? "; use --max-turns" : ""));
  }
  const bool has_delay = conversation.delay_mean_ms > 0 || conversation.delay_stddev_ms > 0;
  if ((conversation.max_turns > 0 || has_delay) && !is_random && !is_sharegpt) {
    return UsageError(absl::StrCat(
        "--max-turns and --conversation-turn-delay-mean go with random and sharegpt, not with ",
        flags.name, "; a file's lines may have a session_id and a delay"));
  }
  if (conversation.turn_mean > 1 && !flags.random.file.empty()) {
    return UsageError("--workload has single requests; leave --conversation-turn-mean out");
  }
  return absl::OkStatus();
}

}  // namespace

void AddDatasetFlags(CLI::App& command, DatasetFlags* flags) {
  FlagGroup add(command, kGroup);
  add.OneOf("--dataset-name", &flags->name,
            {"random", "prefix_repetition", "generated-shared-prefix", "sharegpt", "custom",
             "timed_trace"},
            "Where prompts come from")
      ->capture_default_str();
  add.Text("--dataset-path", &flags->path, "FILE",
           "sharegpt: a JSON file of conversations; custom: JSON lines of {\"prompt\": TEXT, "
           "\"output_tokens\": N}; timed_trace: as --trace-file");
  AddWorkloadFlags(command, &flags->random);
  add.Count("--sharegpt-output-len,--custom-output-len", &flags->file_output_len, 1, kMaxLength,
            "Generated tokens of each prompt of a file (default: as the file says)");
  add.Switch("--disable-shuffle", &flags->keeps_order, "A file's prompts are taken in its order");
  add.Switch("--no-oversample", &flags->no_oversample,
             "A file's prompts are sent once, even if --num-prompts are more");
  add.Switch("--skip-too-long", &flags->skips_too_long,
             "Leave out what a file asks for that does not fit the model's context");
  AddPrefixFlags(command, flags);
  AddConversationFlags(command, &flags->conversation);
  AddTraceFlags(command, flags);
  add.Switch("--text-prompts", &flags->text,
             "Random prompts are words, about one for each token: for servers that take no token "
             "ids");
  add.Text("--tokenizer", &flags->tokenizer_folder, "FOLDER",
           "Model folder whose tokenizer makes random texts of exact lengths, and counts "
           "what the server does not (default: none)");
}

absl::Status CheckDatasetFlags(DatasetFlags* flags) {
  if (flags->name == "generated-shared-prefix") flags->name = "prefix_repetition";  // SGLang's
  if (!flags->trace_file.empty()) {
    if (flags->name != "random" || !flags->path.empty()) {
      return UsageError("--trace-file is a dataset of its own; leave --dataset-name out");
    }
    flags->name = "timed_trace";
    flags->path = flags->trace_file;
  }
  if (IsFile(*flags) == flags->path.empty()) {
    return UsageError(
        IsFile(*flags)
            ? absl::StrCat("--dataset-path is missing: where is ", flags->name, "'s file?")
            : absl::StrCat("--dataset-path goes with sharegpt, custom and timed_trace, not with ",
                           flags->name));
  }
  if (flags->trace_speedup != 1 && !flags->is_timed()) {
    return UsageError("--trace-speedup goes with --trace-file");
  }
  flags->trace_seconds_per_unit = flags->trace_time_unit == "s" ? 1 : 0.001;
  RETURN_IF_ERROR(CheckConversations(*flags));
  if (flags->tokenizer_folder.empty()) return absl::OkStatus();
  auto tokenizer = Tokenizer::Load(flags->tokenizer_folder);
  if (!tokenizer.ok()) {
    return WithExitCode(kNoInput, absl::InvalidArgumentError(
                                      absl::StrCat("--tokenizer: ", tokenizer.status().message())));
  }
  flags->tokenizer = *std::move(tokenizer);
  return absl::OkStatus();
}

}  // namespace quire::bench

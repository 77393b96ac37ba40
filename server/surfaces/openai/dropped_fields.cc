#include "server/surfaces/openai/dropped_fields.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "server/text/json_text.h"

namespace quire {

namespace {

// Longer ones are nobody's spelling mistake.
constexpr size_t kMaxNameBytes = 64;

// Those of OpenAI's that ask for nothing of a model: docs/openai.md lists them.
constexpr std::string_view kHarmless[] = {"user",
                                          "metadata",
                                          "store",
                                          "service_tier",
                                          "safety_identifier",
                                          "prompt_cache_key",
                                          "prompt_cache_retention",
                                          "verbosity",
                                          "modalities"};

bool IsHarmless(std::string_view name) {
  return std::find(std::begin(kHarmless), std::end(kHarmless), name) != std::end(kHarmless);
}

}  // namespace

DroppedFields& DroppedFields::Log() {
  static DroppedFields& log = *new DroppedFields();
  return log;
}

std::string DroppedFields::LineFor(const FieldReader& fields) {
  std::string names;
  for (const std::string& name : fields.Unread()) {
    if (IsHarmless(name) || name.size() > kMaxNameBytes) continue;
    const absl::MutexLock lock(&mutex_);
    if (told_.size() >= kMaxNames || !told_.insert(name).second) continue;
    absl::StrAppend(&names, names.empty() ? "" : ", ", JsonString(name));
  }
  if (names.empty()) return "";
  return absl::StrCat("a request has fields without effect here: ", names,
                      " (told once; docs/openai.md has those that are read)");
}

void DroppedFields::Tell(const FieldReader& fields) {
  const std::string line = LineFor(fields);
  if (!line.empty()) spdlog::warn("{}", line);
}

}  // namespace quire

#include "tools/client/output/logprob_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/client/output/terminal_text.h"

namespace quire::client {

namespace {

std::string Padded(const std::string& text, size_t width) {
  const size_t used = DisplayWidth(text);
  return text + std::string(width > used ? width - used : 0, ' ');
}

}  // namespace

std::string LogprobTable(const std::string& title, const std::vector<v1::TokenLogprob>& tokens) {
  size_t width = 5;  // "token"
  bool alternatives = false;
  for (const v1::TokenLogprob& token : tokens) {
    width = std::max(width, DisplayWidth(Quoted(token.token_bytes())));
    alternatives = alternatives || token.top_size() > 0;
  }
  std::string table =
      absl::StrFormat("%s\n%8s  %s %9s %6s%s\n", title, "id", Padded("token", width), "logprob",
                      "rank", alternatives ? "  alternatives" : "");
  for (const v1::TokenLogprob& token : tokens) {
    absl::StrAppendFormat(&table, "%8d  %s", token.token_id(),
                          Padded(Quoted(token.token_bytes()), width));
    if (token.has_logprob()) {
      absl::StrAppendFormat(&table, " %9.4f %6d", token.logprob(), token.rank());
    } else {
      absl::StrAppendFormat(&table, " %9s %6s", "-", "-");
    }
    for (const v1::TopLogprob& top : token.top()) {
      absl::StrAppendFormat(&table, "  %s %.4f", Quoted(top.token_bytes()), top.logprob());
    }
    table += '\n';
  }
  return table;
}

}  // namespace quire::client

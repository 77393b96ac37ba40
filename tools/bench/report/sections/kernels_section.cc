#include "tools/bench/report/sections/kernels_section.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/bench/report/plots/bar_plot.h"
#include "tools/bench/report/sections/matched_rows.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

std::string OperationName(const Json& row) {
  return absl::StrCat(TextAt(row, "op"), " ", TextAt(row, "shape"));
}

// In percent; none above all of it.
std::optional<double> ShareOfLimit(const Json& row) {
  const auto share = NumberAt(row, "share_of_limit");
  return share.has_value() && *share <= 1 ? std::optional(100 * *share) : std::nullopt;
}

std::optional<double> Us(const Json& row) { return NumberAt(row, "us"); }

// "8 × 3.46 us".
std::string CallsText(const Json& row) {
  const double count = NumberAt(row, "count").value_or(1);
  return absl::StrCat(count == 1 ? "" : absl::StrCat(NumberText(count), " × "),
                      WithUnit(Us(row), "us"));
}

constexpr char kLimitNote[] =
    "The limit is what the device reads or multiplies at most; from a cache it reads faster, and "
    "then there is no share.";

RowKind OperationKind() {
  return {.name_of = OperationName,
          .length_of = ShareOfLimit,
          .us_of = Us,
          .text_of = CallsText,
          .axis = "% of the limit",
          .reference = 100,
          .note = kLimitNote,
          .columns = {{"calls", "", "count"},
                      {"us a call", "", "us"},
                      {"limit, us", "", "limit_us"},
                      {"% of the limit", "", "share_of_limit", 100, true},
                      {"TB/s", "", "tb_s"},
                      {"TFLOP/s", "", "tflops"}}};
}

RowKind AttentionKind() {
  RowKind kind = OperationKind();
  kind.columns[0] = {"plan, us", "", "plan_us"};
  kind.columns.push_back({"of bfloat16's time", "", "time_over_bfloat16"});
  return kind;
}

RowKind StepKind() {
  RowKind kind = OperationKind();
  kind.name_of = [](const Json& row) { return TextAt(row, "title"); };
  kind.columns = {{"us", "", "us"},
                  {"limit, us", "", "limit_us"},
                  {"% of the limit", "", "share_of_limit", 100, true}};
  return kind;
}

std::string TableCaseName(const Json& row) {
  const std::string query = TextAt(row, "query_len"), seq = TextAt(row, "seq_len");
  return absl::StrCat(TextAt(row, "kv_dtype"), ", heads of ", TextAt(row, "head_dim"), ", ",
                      TextAt(row, "phase"), " ", TextAt(row, "num_seqs"), " x ",
                      query == "1" || query == seq ? seq : absl::StrCat(query, " of ", seq));
}

std::optional<double> AutoUs(const Json& row) {
  return NumberAt(MemberOf(row, "us"), TextAt(row, "auto"));
}

// With a column for each path that any row has.
RowKind AttentionTableKind(const Results& results) {
  constexpr size_t kMostPaths = 8;
  RowKind kind = {.name_of = TableCaseName,
                  .length_of = [](const Json& row) -> std::optional<double> {
                    const double ratio = NumberAt(row, "auto_over_fastest").value_or(0);
                    return ratio > 0 ? std::optional(100 / ratio) : std::nullopt;
                  },
                  .us_of = AutoUs,
                  .text_of =
                      [](const Json& row) {
                        return absl::StrCat(TextAt(row, "auto"), ", ", WithUnit(AutoUs(row), "us"));
                      },
                  .axis = "% of the fastest path's speed",
                  .reference = 100,
                  .note = "What --attention-backend auto chooses, against the fastest path.",
                  .columns = {}};
  std::vector<std::string> paths;
  for (const NamedResult* one : results) {
    for (const Json& row : MemberOf(one->json(), "attention_table")) {
      for (const auto& [path, us] : MemberOf(row, "us").items()) {
        const bool is_known = std::find(paths.begin(), paths.end(), path) != paths.end();
        if (!is_known && paths.size() < kMostPaths) paths.push_back(path);
      }
    }
  }
  for (const std::string& path : paths)
    kind.columns.push_back({absl::StrCat(path, ", us"), "us", path});
  kind.columns.push_back({"auto over the fastest", "", "auto_over_fastest"});
  return kind;
}

RowKind CascadeKind() {
  return {.name_of =
              [](const Json& row) {
                return absl::StrCat(TextAt(row, "num_seqs"), " x (", TextAt(row, "prefix_len"),
                                    " shared + ", TextAt(row, "rest_len"), ")");
              },
          .length_of = [](const Json& row) { return NumberAt(row, "speedup"); },
          .us_of = [](const Json& row) { return NumberAt(row, "cascade_us"); },
          .text_of =
              [](const Json& row) {
                return absl::StrCat(NumberText(NumberAt(row, "plain_us").value_or(0)), " → ",
                                    WithUnit(NumberAt(row, "cascade_us"), "us"));
              },
          .axis = "times as fast as reading the prefix with each sequence",
          .reference = 1,
          .note = "",
          .columns = {{"plain, us", "", "plain_us"},
                      {"cascade, us", "", "cascade_us"},
                      {"times as fast", "", "speedup"}}};
}

RowKind RaggedKind() {
  return {.name_of =
              [](const Json& row) {
                const std::string query = TextAt(row, "query_len"), seq = TextAt(row, "seq_len");
                return absl::StrCat(TextAt(row, "kv_dtype"), ", ", TextAt(row, "num_seqs"), " x ",
                                    query == seq ? seq : absl::StrCat(query, " of ", seq));
              },
          .length_of = [](const Json& row) { return NumberAt(row, "speedup"); },
          .us_of = [](const Json& row) { return NumberAt(row, "ragged_us"); },
          .text_of =
              [](const Json& row) {
                return absl::StrCat(NumberText(NumberAt(row, "paged_us").value_or(0)), " → ",
                                    WithUnit(NumberAt(row, "ragged_us"), "us"));
              },
          .axis = "times as fast as reading new tokens from the cache",
          .reference = 1,
          .note = "",
          .columns = {{"paged, us", "", "paged_us"},
                      {"ragged, us", "", "ragged_us"},
                      {"ragged, TFLOP/s", "", "ragged_tflops"},
                      {"times as fast", "", "speedup"}}};
}

std::vector<const Json*> ListsOf(const Results& results, const std::string& key) {
  std::vector<const Json*> lists;
  for (const NamedResult* one : results) lists.push_back(&MemberOf(one->json(), key));
  return lists;
}

std::string FigureText(const std::string& key) {
  constexpr std::pair<const char*, const char*> kTexts[] = {
      {"read_ceiling_tb_s", "Reads at most, TB/s"},
      {"copy_ceiling_tb_s", "Reads and writes at most, copying, TB/s"},
      {"gemm_ceiling_tflops", "Multiplies at most, TFLOP/s"},
      {"decode_attn_read_ratio", "Decode attention's reads, of the most"},
      {"decode_attn_skew_ratio", "Decode attention, skewed lengths over even ones"},
      {"prefill_attn_tflops", "Prefill attention, TFLOP/s"}};
  for (const auto& [figure, text] : kTexts) {
    if (key == figure) return text;
  }
  return NameText(key);
}

Table FiguresTable(const Results& results) {
  Table table = {.caption = "Figures", .head = NameHead(results), .rows = {}};
  std::vector<std::string> keys;
  for (const NamedResult* one : results) {
    for (const auto& [key, value] : MemberOf(one->json(), "figures").items()) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  for (const std::string& key : keys) {
    std::vector<Cell> row = ValueRow(FigureText(key), results, "figures", key);
    for (size_t i = 0; i < results.size() && key == "decode_attn_read_ratio"; ++i) {
      // As of the operations' shares.
      if (NumberAt(MemberOf(results[i]->json(), "figures"), key).value_or(0) > 1) row[i + 1] = "–";
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string Skipped(const Results& results) {
  std::string items;
  for (const NamedResult* one : results) {
    for (const Json& row : MemberOf(one->json(), "skipped")) {
      constexpr double kGiB = 1 << 30;
      const double needed = NumberAt(row, "needed_bytes").value_or(0) / kGiB;
      const double free = NumberAt(row, "free_bytes").value_or(0) / kGiB;
      absl::StrAppend(&items, "<li>", Escape(one->name), ": skipped ",
                      Escape(ShortText(TextAt(row, "name"))), ", which needs ", NumberText(needed),
                      " GiB; ", NumberText(free), " were free</li>\n");
    }
  }
  return items.empty() ? "" : absl::StrCat("<ul class=\"notice\">\n", items, "</ul>\n");
}

// Each step's operations.
std::string StepPlots(const Results& results, const std::vector<MatchedRow>& steps) {
  std::string html;
  for (const MatchedRow& step : steps) {
    std::vector<const Json*> lists;
    std::string sums;
    for (size_t i = 0; i < results.size(); ++i) {
      lists.push_back(&MemberOf(*step.rows[i], "operations"));
      if (step.rows[i]->is_null()) continue;
      absl::StrAppend(&sums, sums.empty() ? "" : "; ",
                      results.size() > 1 ? absl::StrCat(results[i]->name, ": ") : "", "in all ",
                      WithUnit(Us(*step.rows[i]), "us"), ", ",
                      WithUnit(ShareOfLimit(*step.rows[i]), "% of the limit"));
    }
    RowKind kind = OperationKind();
    kind.note = sums;
    absl::StrAppend(&html, MatchedPlot(step.name, kind, results, MatchRows(kind, lists)));
  }
  return html.empty() ? "" : absl::StrCat("<div class=\"plots\">", html, "</div>\n");
}

}  // namespace

std::string KernelsSection(const Results& results) {
  if (results.empty()) return "";
  const RowKind step_kind = StepKind();
  const std::vector<MatchedRow> steps = MatchRows(step_kind, ListsOf(results, "steps"));
  const std::string figures = CardHtml(ToHtml(FiguresTable(results)));
  const std::string sums =
      steps.empty() ? "" : CardHtml(ToHtml(MatchedTable("Steps", step_kind, results, steps)));
  // Several results have several columns each.
  std::string html = absl::StrCat(
      Skipped(results),
      results.size() == 1 ? BesideHtml(results, figures, sums) : absl::StrCat(figures, sums),
      StepPlots(results, steps));
  const auto add = [&](const char* title, const char* key, const RowKind& kind) {
    absl::StrAppend(&html,
                    MatchedPlot(title, kind, results, MatchRows(kind, ListsOf(results, key))));
  };
  add("Attention", "attention", AttentionKind());
  add("Attention paths", "attention_table", AttentionTableKind(results));
  add("Decodes that share a prefix", "cascade", CascadeKind());
  add("Prompts whose new tokens are read where a gemm leaves them", "ragged", RaggedKind());
  add("Sampling", "sampling_table", OperationKind());
  add("Gated delta nets", "delta_table", OperationKind());
  return html;
}

}  // namespace quire::bench

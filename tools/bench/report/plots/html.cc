#include "tools/bench/report/plots/html.h"

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "server/text/utf8.h"
#include "tools/bench/report/plots/page_template.h"

namespace quire::bench {

namespace {

std::string Grouped(double value) {
  const std::string digits = absl::StrFormat("%.0f", std::abs(value));
  std::string text = value < 0 ? "-" : "";
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace

std::string Escape(absl::string_view text) {
  std::string html;
  for (size_t i = 0; i < text.size();) {
    const Character one = CharacterAt({text.data(), text.size()}, i);
    const bool is_control = one.code < 0x20 && one.code != '\n' && one.code != '\t';
    const bool turns =
        (one.code >= 0x202A && one.code <= 0x202E) || (one.code >= 0x2066 && one.code <= 0x2069);
    if (is_control || turns || (one.code >= 0x7F && one.code < 0xA0)) {
      html += "\uFFFD";
    } else if (one.size == 1 && absl::StrContains("&<>\"'", text[i])) {
      absl::StrAppend(&html, "&#", one.code, ";");
    } else {
      html.append(text.data() + i, one.size);
    }
    i += one.size;
  }
  return html;
}

std::string NumberText(double value) {
  if (!std::isfinite(value)) return "–";
  const double size = std::abs(value);
  if (size >= 100) return Grouped(value);
  if (size != 0 && size < 0.1) return absl::StrFormat("%.2g", value);
  std::string text = absl::StrFormat("%.*f", size >= 10 ? 1 : 2, value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

Cell Cell::OfHtml(std::string html) {
  Cell cell(std::move(html));
  cell.is_html_ = true;
  return cell;
}

std::string Cell::ToHtml() const { return is_html_ ? text_ : Escape(text_); }

std::string ToHtml(const Table& table) {
  std::string html = absl::StrCat(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"", Escape(table.caption),
      "\"><table>\n<caption class=\"unseen\">", Escape(table.caption), "</caption>\n<thead><tr>");
  for (const Cell& cell : table.head) {
    absl::StrAppend(&html, "<th scope=\"col\">", cell.ToHtml(), "</th>");
  }
  absl::StrAppend(&html, "</tr></thead>\n<tbody>\n");
  for (const std::vector<Cell>& row : table.rows) {
    if (row.size() == 1) {
      absl::StrAppend(&html, "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"",
                      table.head.size(), "\">", row[0].ToHtml(), "</th></tr>\n");
      continue;
    }
    absl::StrAppend(&html, "<tr><th scope=\"row\">", row[0].ToHtml(), "</th>");
    for (size_t i = 1; i < row.size(); ++i)
      absl::StrAppend(&html, "<td>", row[i].ToHtml(), "</td>");
    absl::StrAppend(&html, "</tr>\n");
  }
  return absl::StrCat(html, "</tbody></table></div>\n");
}

std::string HtmlPage(const std::string& title, const std::string& body) {
  return absl::StrReplaceAll(PageTemplate(), {{"@TITLE@", Escape(title)}, {"@BODY@", body}});
}

}  // namespace quire::bench

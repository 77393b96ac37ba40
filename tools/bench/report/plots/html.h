// Pages of results: one file each, with nothing from outside. Whatever came from a file or a server
// goes in through Escape. Pure; any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace quire::bench {

// As text or between double quotes; control characters and those that turn the direction of text
// are shown as U+FFFD.
std::string Escape(absl::string_view text);

// 0.0042, 0.5, 12.3, 1,234: three digits or more.
std::string NumberText(double value);

// Text, which is escaped; or HTML that was made by whoever said so.
class Cell {
 public:
  Cell(std::string text) : text_(std::move(text)) {}  // NOLINT: texts are cells
  Cell(const char* text) : text_(text) {}             // NOLINT
  static Cell OfHtml(std::string html);

  std::string ToHtml() const;

 private:
  std::string text_;
  bool is_html_ = false;
};

struct Table {
  std::string caption;  // for screen readers
  std::vector<Cell> head;
  std::vector<std::vector<Cell>> rows;  // first cells are headings; of one cell: a group's name
};
std::string ToHtml(const Table& table);

// `body` is HTML.
std::string HtmlPage(const std::string& title, const std::string& body);

}  // namespace quire::bench

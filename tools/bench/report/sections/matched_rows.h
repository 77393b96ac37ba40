// Lists of measurements of several results beside each other: rows of the same name belong
// together, and the time of one is compared with that of the first result. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/bench/report/sections/named_result.h"

namespace quire::bench {

// Of a row's number: the member `key` of its member `object`, or of the row itself if that is
// empty.
struct RowColumn {
  std::string title;
  std::string object;
  std::string key;
  double factor = 1;
  bool is_share = false;  // of a limit: there is none above 1
};

// What a list has. Rows are of a file: anything may be missing or of another type.
struct RowKind {
  using Json = nlohmann::ordered_json;

  std::string (*name_of)(const Json& row);
  std::optional<double> (*length_of)(const Json& row);  // of its bar
  std::optional<double> (*us_of)(const Json& row);      // what a speed-up is of
  std::string (*text_of)(const Json& row);              // at its bar
  std::string axis;
  double reference = 0;  // a length that means something
  std::string note;
  std::vector<RowColumn> columns;
};

struct MatchedRow {
  std::string name;
  std::vector<const nlohmann::ordered_json*> rows;  // one of each list: null where it has none
};

// In the order in which they appear. The second of a name in a list belongs to the second of that
// name in others.
std::vector<MatchedRow> MatchRows(const RowKind& kind,
                                  const std::vector<const nlohmann::ordered_json*>& lists);

// As HTML; `rows` are one of each of `results`.
std::string MatchedPlot(const std::string& title, const RowKind& kind, const Results& results,
                        const std::vector<MatchedRow>& rows);
Table MatchedTable(const std::string& caption, const RowKind& kind, const Results& results,
                   const std::vector<MatchedRow>& rows);

}  // namespace quire::bench

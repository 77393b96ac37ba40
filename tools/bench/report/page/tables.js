// Tables and cards. A cell is a text or an element.
const NUM_COLOURS = 8;
const shade = (colour) => `var(--shade-${colour % NUM_COLOURS})`;

// Of the parts of a bar: neighbours differ.
const partColour = (part) => shade([2, 4, 1, 7, 3, 6, 0, 5][part % NUM_COLOURS]);

// A result's name with a swatch of its colour, and perhaps more.
const nameCell = ({name, colour}, more = "") => element("span", "", swatch(shade(colour)), name + more);
// The names of results in a plot's legend.
const nameLegend = (results) => results.map(({name, colour}) => [shade(colour), name]);
// An empty cell, then the results' names.
const nameHead = (results) => ["", ...results.map((one) => nameCell(one))];

function headCell(scope, cell) {
  const node = element("th", "", cell);
  node.scope = scope;
  return node;
}

// First cells of rows are headings; a row of one cell is a group's name.
function tableOf({caption, head, rows}) {
  const body = element("tbody");
  for (const [first, ...rest] of rows) {
    const isGroup = rest.length === 0;
    const name = headCell(isGroup ? "rowgroup" : "row", first);
    if (isGroup) name.colSpan = head.length;
    body.append(element("tr", isGroup ? "group" : "", name, ...rest.map((cell) => element("td", "", cell))));
  }
  const title = element("caption", "unseen", caption);
  const table = element("table", "", title, element("thead", "", element("tr", "", ...head.map((cell) => headCell("col", cell)))), body);
  const scroll = element("div", "scroll", table);
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", caption);
  return scroll;
}

const card = (...children) => element("div", "card", ...children);
const tableCard = (table) => card(tableOf(table));

// A row of a number in each result.
const valueRow = (name, results, keys, factor = 1) => [name, ...results.map(({json}) => valueText(numberIn(json, ...keys), factor))];

// The columns of summaries, and a row of one.
const STATISTICS = ["count", "mean", "min", "p50", "p90", "p99", "max"];
const summaryHead = (what) => [what, "samples", "mean", "least", "p50", "p90", "p99", "most"];
const summaryRow = (name, summary) => [name, ...STATISTICS.map((statistic) => valueText(numberAt(summary, statistic)))];

// Two cards or plots, beside each other where a table of so many results has room in half a page.
function beside(results, ...parts) {
  return element("div", results.length > 3 ? "stack tables" : "plots tables", ...parts.filter((part) => part));
}

// Nothing where there is nothing in it.
function section(title, ...parts) {
  const shown = parts.flat().filter((part) => part);
  return shown.length === 0 ? [] : [element("section", "", element("h2", "", title), ...shown)];
}

const notice = (items) => (items.length === 0 ? [] : [element("ul", "notice", ...items)]);

// A plot with its numbers as a table.
function plotOf({title, note, table, ...data}) {
  const plot = new Plot({title, note});
  plot.set(data);
  plot.card.append(element("details", "", element("summary", "", "Numbers"), tableOf(table)));
  return plot.card;
}

const plotsOf = (plots) => (plots.length === 0 ? [] : [element("div", "plots", ...plots.map(plotOf))]);

// A list: a line for each row, with its name, a bar of one or several parts, and its numbers at the end.
// rows: {name, parts: [{length, colour, label, text}], end, dots, belongsToLast}.
function barPlotOf({rows, axis, least = 0, ...more}) {
  const hasGroups = rows.some(({belongsToLast}) => belongsToLast);
  const lengthOf = ({length}) => Math.max(0, length || 0);
  const bars = [];
  let most = least;
  const lanes = rows.map(({name, parts, end, dots = [], belongsToLast}, lane) => {
    let begin = 0;
    for (const part of parts) {
      bars.push({...part, begin, end: begin + lengthOf(part), lane});
      begin += lengthOf(part);
    }
    most = Math.max(most, begin, ...dots);
    return {name, end, dots, lineAbove: hasGroups && lane > 0 && !belongsToLast};
  });
  return plotOf({x: Axis.linear(axis, most), lanes, bars, isList: true, ...more});
}

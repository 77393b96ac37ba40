// Runs: doubts about them, the figures that most people look for, all figures side by side, and the turns of
// conversations.
const HEADLINES = [["output_throughput", "output tokens/s"], ["request_throughput", "requests/s"],
  ["median_ttft_ms", "ms to the first token, median"], ["p99_ttft_ms", "ms to the first token, p99"],
  ["median_itl_ms", "ms between tokens, median"]];
// They matter where they are not zero, or only some commands tell them.
const MORE_COUNTS = ["abandoned", "timed_out", "unfinished", "unsent", "uncounted", "stopped", "steps", "preemptions",
  "tokens_per_piece", "decode_tokens_per_s"];

function runNotices(runs) {
  const items = [];
  for (const {name, json, doubts, why_no_requests: why} of runs) {
    items.push(...doubts.map((doubt) => element("li", "", doubt)));
    if (why) items.push(element("li", "", `${why}: it is in no plot`));
    items.push(...listAt(json, "problems").map((problem) => element("li", "error",
      `${name}: ${textAt(problem, "count")} × ${shortText(textAt(problem, "problem"))}`)));
  }
  return items;
}

function headlines({json}) {
  const items = HEADLINES.filter(([key]) => numberAt(json, key) !== null)
    .map(([key, text]) => element("li", "", element("b", "", numberText(numberAt(json, key))), ` ${text}`));
  return items.length === 0 ? [] : [element("ul", "headlines", ...items)];
}

// The rows of those figures that `groupOf` has a group for; the clearly best value is bold.
function figureRows(runs, figures, groupOf, nameOf) {
  const rows = [];
  let group = "";
  for (const figure of figures) {
    const own = groupOf(figure);
    if (!own) continue;
    if (own !== group) rows.push([group = own]);
    rows.push([nameOf(figure), ...runs.map(({json}, i) => {
      const text = valueText(numberAt(json, figure.name));
      return i === figure.best ? element("b", "", text) : text;
    })]);
  }
  return rows;
}

function runSummary(runs, figures) {
  // Where places alone decide when a request is sent, its wait for one is none of the server's.
  const haveQueues = runs.some(({json}) => textAt(json, "latencies_from") !== "sent");
  const shown = figures.filter(({metric}) => metric !== "client_queue_time" || haveQueues);
  const counts = [...shown].sort((a, b) => (b.kind === "rate") - (a.kind === "rate"));
  const countRows = figureRows(runs, counts, ({kind}) => ({rate: "Throughput", stated: "Counts"})[kind], ({name}) => nameText(name));
  for (const key of MORE_COUNTS) {
    if (runs.some(({json}) => numberAt(json, key))) countRows.push(valueRow(nameText(key), runs, [key]));
  }
  const latencyRows = figureRows(runs, shown, ({kind, metric}) => (kind === "latency" ? `${METRICS[metric]}, ms` : ""),
    ({name}) => name.slice(0, name.indexOf("_")));
  if (runs.some(({json}) => keysAt(json, "batch_ms").length > 0)) {
    latencyRows.push(["Whole batch, ms"], ...["mean", "min", "p50", "p90", "p99", "max"].map((statistic) =>
      valueRow(statistic, runs, ["batch_ms", statistic])));
  }
  const head = nameHead(runs);
  return beside(runs, countRows.length > 0 && tableCard({caption: "Throughput and counts", head, rows: countRows}),
    latencyRows.length > 0 && tableCard({caption: "Latencies", head: nameHead(runs), rows: latencyRows}));
}

const TURN_COLUMNS = [["completed", "Requests"], ["total_input_tokens", "Prompt tokens"], ["cached_input_tokens", "Of them cached"],
  ["cached_share", "Cached, %", 100], ["total_output_tokens", "Output tokens"], ["mean_ttft_ms", "TTFT mean, ms"],
  ["median_ttft_ms", "TTFT median, ms"], ["p99_ttft_ms", "TTFT p99, ms"], ["mean_e2el_ms", "Mean latency, ms"],
  ["p99_e2el_ms", "p99 latency, ms"]];

function turnBar({name, json, colour}, i, isFirst) {
  const turn = listAt(json, "turns")[i];
  const [median, p99, cached] = ["median_ttft_ms", "p99_ttft_ms", "cached_share"].map((key) => numberAt(turn, key));
  const end = withUnit(median, "ms") + (cached === null ? "" : `, ${numberText(100 * cached)} % cached`);
  return {name: isFirst ? `turn ${i + 1}` : "", end, dots: p99 === null ? [] : [p99], belongsToLast: !isFirst,
    parts: [{length: median, colour: shade(colour), text: `${name}, turn ${i + 1}: ${end}; p99 ${withUnit(p99, "ms")}`}]};
}

// Conversations: the first token of each turn, and what of its prompt was cached.
function turnPlot(all) {
  const runs = all.filter(({json}) => listAt(json, "turns").length > 1);
  if (runs.length === 0) return [];
  const rows = [];
  const cells = [];
  for (let i = 0; i < Math.max(...runs.map(({json}) => json.turns.length)); ++i) {
    runs.filter(({json}) => i < json.turns.length).forEach((run, place) => rows.push(turnBar(run, i, place === 0)));
  }
  for (const run of runs) {
    cells.push([nameCell(run)], ...run.json.turns.map((turn, i) => [`turn ${i + 1}`,
      ...TURN_COLUMNS.map(([key, , factor]) => valueText(numberAt(turn, key), factor))]));
  }
  return barPlotOf({title: "Time to first token by turn", note: "Bars are medians, a dot is the 99th percentile", rows, axis: "ms",
    legend: nameLegend(runs),
    table: {caption: "Turns", head: ["", ...TURN_COLUMNS.map(([, text]) => text)], rows: cells}});
}

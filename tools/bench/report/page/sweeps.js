// Sweeps: throughput and latencies as the load grows, and the load that is too much.
const POINT_COLUMNS = [["achieved_rate", "Requests/s achieved"], ["output_throughput", "Output tokens/s"], ["good_share", "Good ones, %", 100],
  ["median_ttft_ms", "TTFT median, ms"], ["p99_ttft_ms", "TTFT p99, ms"], ["median_itl_ms", "ITL median, ms"],
  ["p99_itl_ms", "ITL p99, ms"], ["failed", "Failed"]];

// The points that have a load, by load.
function pointsOf({json}) {
  return listAt(json, "points").filter((point) => numberAt(point, "load") !== null).sort((a, b) => a.load - b.load);
}

const loadText = ({json}, load) => numberText(load) + (textAt(json, "by") === "concurrency" ? " at a time" : " requests/s");

// `y` of each point over `x`.
function curveOf(sweep, x, y, more = {}) {
  const points = pointsOf(sweep).filter((point) => numberAt(point, x) !== null && numberAt(point, y) !== null);
  return {name: sweep.name, colour: shade(sweep.colour), dots: true, points: points.map((point) => [point[x], point[y]]),
    texts: points.map((point) => `at ${loadText(sweep, point.load)}`), ...more};
}

function saturationMarks(sweeps, x) {
  return sweeps.flatMap((sweep) => {
    const load = numberIn(sweep.json, "saturation", "last_good");
    const point = pointsOf(sweep).find((one) => one.load === load && numberAt(one, x) !== null);
    if (!point) return [];
    return [{x: point[x], text: `${sweeps.length > 1 ? `${sweep.name}: ` : ""}saturation, ${loadText(sweep, load)}`}];
  });
}

function curveTable(title, xText, yText, series) {
  return {caption: title, head: ["Load", xText, yText], rows: series.flatMap(({name, points, texts}) => [[name],
    ...points.map(([x, y], i) => [texts[i], numberText(x), numberText(y)])])};
}

const mostOf = (series, place) => Math.max(0, ...series.flatMap(({points}) => points.map((point) => point[place])));

function sweepLatencyPlot(sweeps, metric) {
  const title = `${METRICS[metric]} against throughput`;
  const series = sweeps.flatMap((sweep) => ["p99", "median"].map((statistic) =>
    curveOf(sweep, "output_throughput", `${statistic}_${metric}_ms`, {
      name: (sweeps.length > 1 ? `${sweep.name}, ` : "") + statistic, dashed: statistic === "median"})))
    .filter(({points}) => points.length > 0);
  if (series.length === 0) return [];
  return [{title, series, marks: saturationMarks(sweeps, "output_throughput"),
    x: Axis.linear("output tokens per second", 1.03 * mostOf(series, 0)), y: Axis.log("ms", series.flatMap(({points}) => points.map(([, ms]) => ms))),
    table: curveTable(title, "Output tokens/s", "ms", series)}];
}

function sweepPlots(sweeps) {
  if (sweeps.length === 0) return [];
  const title = "Throughput over load";
  const series = sweeps.map((sweep) => curveOf(sweep, "load", "output_throughput"));
  const load = textAt(sweeps[0].json, "by") === "concurrency" ? "requests at a time" : "requests per second that were asked for";
  return [{title, series, marks: saturationMarks(sweeps, "load"), x: Axis.linear(load, 1.03 * mostOf(series, 0)),
    y: Axis.linear("tokens/s", mostOf(series, 1)), table: curveTable(title, "Load", "tokens/s", series)},
    ...["ttft", "itl", "e2el"].flatMap((metric) => sweepLatencyPlot(sweeps, metric))];
}

function sweepTable(sweep) {
  const points = pointsOf(sweep);
  const columns = POINT_COLUMNS.filter(([key]) => points.some((point) => numberAt(point, key) !== null));
  return card(element("h3", "", nameCell(sweep)), tableOf({caption: `The points of ${sweep.name}`,
    head: ["Load", ...columns.map(([, text]) => text), "Verdict"],
    rows: points.map((point) => [loadText(sweep, point.load), ...columns.map(([key, , factor]) => valueText(numberAt(point, key), factor)),
      textAt(point, "verdict")])}));
}

function verdicts(sweeps) {
  return sweeps.flatMap(({name, json}) => {
    const sentence = textAt(memberOf(json, "saturation"), "sentence");
    return sentence ? [element("p", "verdict", (sweeps.length > 1 ? `${name}: ` : "") + sentence)] : [];
  });
}

const sweepSections = (sweeps) => [...section("Throughput against latency", plotsOf(sweepPlots(sweeps))),
  ...section("Points of the sweep", sweeps.map(sweepTable))];

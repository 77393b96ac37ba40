// Plots of runs whose requests were saved: percentiles of each latency, tokens and requests over time, the first token
// of each request, and the heat of steps. Times are seconds since the first request of the run.
const MOST_BINS = 60;
const MOST_DOTS = 1500;  // of a run
const SECONDS = "seconds since the first request";

function samplesOf({requests}, metric) {
  const samples = metric === "itl" ? requests.itl_ms.flat() : requests[`${metric}_ms`];
  return samples.filter((value) => value !== null);
}

function percentilePlot(runs, metric) {
  const all = runs.map((run) => ({...run, distribution: new Distribution(samplesOf(run, metric))}))
    .filter(({distribution}) => distribution.count > 0);
  if (all.length === 0) return [];
  const x = Axis.nines("percentile", Math.max(...all.map(({distribution}) => distribution.count)));
  const end = nines(x.max);
  const series = all.map(({name, colour, distribution}) => ({name, colour: shade(colour),
    points: Array.from({length: 151}, (_, i) => 100 * (1 - 10 ** (-end * i / 150)))
      .map((percent) => [percent, distribution.percentile(percent)])}));
  const name = (percent) => ({0: "least", 100: "most"})[percent] || `p${percent}`;
  return [{title: METRICS[metric], x, y: Axis.log("ms", series.flatMap(({points}) => points.map(([, ms]) => ms))), series,
    table: {caption: `${METRICS[metric]} by percentile, ms`, head: ["Percentile", ...all.map((one) => one.name)],
      rows: [0, 10, 25, 50, 75, 90, 95, 99, 99.9, 100].map((percent) => [name(percent),
        ...all.map(({distribution}) => numberText(distribution.percentile(percent)))])}}];
}

const percentilePlots = (runs) => ["ttft", "tpot", "itl", "e2el"].flatMap((metric) => percentilePlot(runs, metric));

// When each gap between the tokens of the i-th request ended, and its length in ms.
function gapsOf(requests, i) {
  let time = requests.first_token[i];
  return requests.itl_ms[i].map((gap) => [time += gap / 1000, gap]);
}

const endOf = ({requests}) => requests.end.reduce((most, end) => Math.max(most, end), 0);

// Output tokens a second in each bin.
function tokenRates({requests}, width, numBins) {
  const rates = Array(numBins).fill(0);
  const add = (time, tokens) => {
    if (time >= 0) rates[Math.min(Math.floor(time / width), numBins - 1)] += tokens / width;
  };
  requests.ttft_ms.forEach((ttft, i) => {
    if (ttft === null) return;
    const times = [requests.first_token[i], ...gapsOf(requests, i).map(([time]) => time)];
    for (const time of times) add(time, requests.output_tokens[i] / times.length);
  });
  return rates;
}

// Requests in flight in each bin, on average.
function inFlight({requests}, width, numBins) {
  // What each bin has more than the one before it, of whole bins; and what bins have in part.
  const steps = Array(numBins + 1).fill(0);
  const parts = Array(numBins).fill(0);
  requests.start.forEach((start, i) => {
    const [begin, end] = [start, requests.end[i]].map((time) => Math.max(time, 0) / width);
    const [first, last] = [begin, end].map((bin) => Math.min(Math.floor(bin), numBins - 1));
    if (first === last) {
      parts[first] += Math.max(0, end - begin);
      return;
    }
    parts[first] += first + 1 - begin;
    parts[last] += end - last;
    steps[first + 1] += 1;
    steps[last] -= 1;
  });
  let whole = 0;
  return parts.map((part, i) => part + (whole += steps[i]));
}

function binnedPlot(runs, title, unit, valuesOf) {
  const end = Math.max(0, ...runs.map(endOf));
  const width = axisStep(Math.max(end, 0.001 * MOST_BINS), MOST_BINS);
  const numBins = Math.floor(end / width) + 1;
  const values = runs.map((run) => valuesOf(run, width, numBins).slice(0, Math.floor(endOf(run) / width) + 1));
  const rows = Array.from({length: numBins}, (_, i) => [numberText(width * i),
    ...values.map((own) => (i < own.length ? numberText(own[i]) : ""))]);
  return {title, note: `Averages of ${numberText(width)} s`, x: new Axis({label: SECONDS, max: width * numBins}),
    y: Axis.linear(unit, values.flat().reduce((most, value) => Math.max(most, value), 0)),
    series: runs.map(({name, colour}, i) => ({name, colour: shade(colour), points: values[i].map((value, bin) => [(bin + 0.5) * width, value])})),
    table: {caption: title, head: ["Seconds", ...runs.map(({name}) => name)], rows}};
}

// When each request that got tokens started, and its time to the first one in ms.
const startsOf = ({requests}) => requests.ttft_ms.map((ttft, i) => [requests.start[i], ttft]).filter(([, ttft]) => ttft !== null);

// Each k-th request, and all of the slowest.
function dotsOf(run) {
  const started = startsOf(run);
  const every = Math.floor(started.length / MOST_DOTS) + 1;
  const slow = new Distribution(started.map(([, ttft]) => ttft)).percentile(99);
  return {isThinned: every > 1, points: started.filter(([, ttft], i) => i % every === 0 || (every > 1 && ttft > slow))};
}

// A row for each of so many parts of the time that has any: its number of samples, and percentiles of them.
function partRows(samples, end, numParts, percents) {
  const parts = Array.from({length: numParts}, () => []);
  for (const [time, value] of samples) parts[Math.min(Math.floor(Math.max(time, 0) / end * numParts), numParts - 1)].push(value);
  return parts.map((values, i) => {
    const distribution = new Distribution(values);
    return [`${numberText(end * i / numParts)} – ${numberText(end * (i + 1) / numParts)} s`, String(distribution.count),
      ...percents.map((percent) => numberText(distribution.percentile(percent)))];
  });
}

function scatterPlot(runs) {
  const dots = runs.map(dotsOf);
  const points = dots.flatMap((one) => one.points);
  const end = points.reduce((most, [start]) => Math.max(most, start), 0) || 1;
  const rows = runs.flatMap((run) => [[run.name], ...partRows(startsOf(run), end, 10, [50, 100])]);
  return {title: "Time to first token by start",
    note: dots.some(({isThinned}) => isThinned) ? "A dot is a request: some of all, and all of the slowest 1 %" : "A dot is a request",
    x: new Axis({label: SECONDS, max: end * 1.01}), y: Axis.log("ms", points.map(([, ttft]) => ttft)),
    series: runs.map(({name, colour}, i) => ({name, colour: shade(colour), dots: true, line: false, points: dots[i].points})),
    table: {caption: "Time to first token by start", head: ["Started within", "Requests", "Median, ms", "Most, ms"], rows}};
}

function timePlots(runs) {
  if (runs.length === 0) return [];
  return [binnedPlot(runs, "Output tokens per second", "tokens/s", tokenRates),
    binnedPlot(runs, "Requests in flight", "requests", inFlight), scatterPlot(runs)];
}

// The heat of steps: how long the gaps between tokens were, over the time of a run.
const HEAT_COLUMNS = 48;
const HEAT_ROWS = 24;
const HEAT_PARTS = 12;  // of the time, in the table

function heatCells(gaps, end, y) {
  const counts = Array(HEAT_COLUMNS * HEAT_ROWS).fill(0);
  for (const [time, gap] of gaps) {
    const column = Math.min(Math.floor(Math.max(time, 0) / end * HEAT_COLUMNS), HEAT_COLUMNS - 1);
    ++counts[column * HEAT_ROWS + Math.min(Math.floor(y.place(gap) * HEAT_ROWS), HEAT_ROWS - 1)];
  }
  const most = Math.max(...counts);
  const valueAt = (place) => y.min * (y.max / y.min) ** place;
  return counts.flatMap((count, i) => {
    if (count === 0) return [];
    const [column, row] = [Math.floor(i / HEAT_ROWS), i % HEAT_ROWS];
    const xs = [end * column / HEAT_COLUMNS, end * (column + 1) / HEAT_COLUMNS];
    const ys = [valueAt(row / HEAT_ROWS), valueAt((row + 1) / HEAT_ROWS)];
    // Rare ones are to be seen beside many.
    return [{x: xs, y: ys, heat: Math.sqrt(count / most),
      text: `${xs.map(numberText).join(" – ")} s: ${count} ${count === 1 ? "gap" : "gaps"} of ${ys.map(numberText).join(" – ")} ms`}];
  });
}

function heatPlot(run) {
  const {requests} = run;
  const gaps = requests.ttft_ms.flatMap((ttft, i) => (ttft === null ? [] : gapsOf(requests, i)));
  const end = gaps.reduce((most, [time]) => Math.max(most, time), 0);
  if (end <= 0) return [];
  const title = `Heat of steps: ${run.name}`;
  const y = Axis.log("ms", gaps.map(([, gap]) => gap));
  return [{title, x: new Axis({label: SECONDS, max: end}), y, cells: heatCells(gaps, end, y), heatColour: shade(run.colour),
    note: "Gaps between tokens when they came, the stronger the colour the more: a step of the engine gives each stream a token",
    table: {caption: title, head: ["Within", "Gaps", "Median, ms", "p99, ms", "Most, ms"],
      rows: partRows(gaps, end, HEAT_PARTS, [50, 99, 100]).filter(([, count]) => count !== "0")}}];
}

const heatPlots = (runs) => runs.flatMap(heatPlot);

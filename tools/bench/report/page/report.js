// The page: saved results side by side, as tables and plots, or steps of an engine.

// The members of a result that describe it; the other members are figures, or in the plots.
const FACTS = ["label", "command", "version", "time", "date", "machine", "backend", "target", "served", "model", "model_id", "device",
  "dtype", "server_flags", "title", "tokenizer_id", "workload", "request_rate", "burstiness", "ramp_up_strategy", "max_concurrency", "by",
  "num_prompts", "iterations", "batch_size", "input_len", "output_len", "dataset_path", "num_items", "compared_with", "sampling",
  "extra_body", "goodput", "seed", "latencies_from", "interrupted", "client", "saturation"];
const MOST_WORDS = 100;

function factText(value) {
  if (typeof value === "string") return shortText(value);
  if (typeof value === "number" && !Number.isInteger(value)) return numberText(value);
  if (Array.isArray(value) && value.length < MOST_WORDS) return shortText(value.map(factText).join(" "));  // the words of a command line
  return shortText(isObject(value) ? Object.entries(value).map(([key, member]) => `${key} ${factText(member)}`).join(", ") : JSON.stringify(value));
}

function factsTable(results) {
  const told = FACTS.filter((key) => results.some(({json}) => memberOf(json, key) !== null));
  const rows = told.map((key) => [nameText(key), ...results.map(({json}) => {
    const value = memberOf(json, key);
    return value === null ? "–" : factText(value);
  })]);
  return element("div", "facts", tableCard({caption: "What was run", head: nameHead(results), rows}));
}

function runSections(runs, figures) {
  if (runs.length === 0) return [];
  const detailed = runs.filter(({requests}) => requests);
  return [...section("Summary", runSummary(runs, figures)), ...section("Latency by percentile", plotsOf(percentilePlots(detailed))),
    ...section("Conversations", turnPlot(runs)), ...section("Over time", plotsOf(timePlots(detailed))),
    ...section("Steps", plotsOf(heatPlots(detailed)))];
}

function reportOf({results, figures}) {
  const ofKind = (kind) => results.filter((one) => one.kind === kind);
  const [runs, sweeps] = [ofKind("run"), ofKind("sweep")];
  const interrupted = results.filter(({kind, json}) => kind !== "run" && memberOf(json, "interrupted") === true)
    .map(({name}) => element("li", "", `${name} was interrupted: it has results so far`));
  return [...notice([...runNotices(runs), ...interrupted]), ...(runs.length === 1 ? headlines(runs[0]) : []), ...verdicts(sweeps),
    ...(sweeps.length > 0 ? sweepSections(sweeps) : []), ...runSections(runs, figures),
    ...section("Start", startupSection(ofKind("startup"))), ...section("Kernels", kernelsSection(ofKind("kernels"))),
    ...section("Timeline", timelineSection(ofKind("timeline"))), ...section("Quality", qualitySection(ofKind("quality"))),
    ...section("What was run", factsTable(results))];
}

// Steps of an engine one by one, on the device and on the host. `steps`: {step, device: [from, to], host: [[from, to]]} in us.
function stepsOf({timeline: {title, num_shown: shown, json, stages, span_us: span, steps}}) {
  const colours = [shade(0), shade(5)];  // neighbours are told apart
  const bars = steps.flatMap(({step, device, host}) => [[device, 0, colours[step % 2], `step ${step} on the device`],
    ...host.map((times, stage) => [times, 1, partColour(stage), `step ${step}, ${stages[stage]}`])])
    .map(([[begin, end], lane, colour, what]) => ({begin, end, lane, colour, label: (end - begin).toFixed(1),
      text: `${what}: ${(end - begin).toFixed(1)} us`}));
  const plotTitle = `${shown} of ${json.steps} steps, from the middle of the run`;
  const plot = plotOf({title: plotTitle, note: "Device: from a step's first operation to its last; neighbours differ in colour, and what is "
    + "empty is idle. Host: the engine's thread.", x: new Axis({label: "us", max: span}), lanes: [{name: "device"}, {name: "host"}], bars,
    legend: stages.map((stage, i) => [partColour(i), stage]), table: {caption: plotTitle, head: ["What", "Begins at, us", "Ends at, us"],
      rows: bars.map(({text, begin, end}) => [text, numberText(begin), numberText(end)])}});
  const headline = (text, what) => element("li", "", element("b", "", text), ` ${what}`);
  return [element("p", "verdict", title), element("ul", "headlines", headline(`${(100 * (1 - json.idle_share)).toFixed(2)} %`, "device busy"),
    headline(`${(100 * json.idle_share).toFixed(2)} %`, "idle between steps"), headline(numberText(json.tokens_per_s), "tokens/s"),
    headline(numberText(json.period_us.p50), "us a step, median")),
    ...section("Device and host", plot),
    ...section("Steps", tableCard({caption: "Microseconds a step", head: summaryHead("us a step"), rows: stepRows(json)}))];
}

function showPage(data) {
  document.querySelector("main").replaceChildren(...(data.timeline ? stepsOf(data) : reportOf(data)));
}

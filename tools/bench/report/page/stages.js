// Starts of a server, steps in steady decode, and scores of answers.
const MOMENTS = [["listening_ms", "it listens"], ["first_token_ms", "the first token"]];

// The parts of a bar that are stages, each with its mean.
function stageParts(json, object, stages, unit) {
  return stages.map((stage, i) => stagePart(stage, numberIn(json, object, stage, "mean") ?? 0, partColour(i), unit));
}
const stagePart = (label, length, colour, unit) => ({length, colour, label, text: `${label}: ${numberText(length)} ${unit}`});
const sumOf = (parts) => parts.reduce((sum, {length}) => sum + length, 0);

function stagesBar({name, json}, stages) {
  const parts = stageParts(json, "stage_ms", stages, "ms");
  return {name: `${name}: stages`, parts, end: withUnit(sumOf(parts), "ms")};
}

// Until it listens, or the first token: the mean as a bar, every start as a dot.
function momentBar({name, json, colour}, key, text) {
  const ms = numberIn(json, key, "mean");
  const dots = listAt(json, "starts").map((start) => numberAt(start, key)).filter((one) => one !== null);
  const each = dots.length === 0 ? "" : `; each start: ${dots.map(numberText).join(", ")}`;
  return {name: `until ${text}`, end: withUnit(ms, "ms"), belongsToLast: true, dots,
    parts: [{length: ms, colour: shade(colour), text: `${name}, until ${text}: ${withUnit(ms, "ms")}${shortText(each)}`}]};
}

function startupPlot(results) {
  // Those that took any time, in the order of the log.
  const stages = unique(results.map(({json}) => keysAt(json, "stage_ms").filter((stage) => numberIn(json, "stage_ms", stage, "mean") > 0)));
  const eachStart = results.flatMap((one) => [[nameCell(one)], ...listAt(one.json, "starts").map((start, i) => [String(i + 1),
    ...MOMENTS.map(([key]) => valueText(numberAt(start, key)))])]);
  return barPlotOf({title: "From the start of the process", note: "Means; a dot is a start. The stages are those of the server's log.",
    rows: results.flatMap((one) => [stagesBar(one, stages), ...MOMENTS.map(([key, text]) => momentBar(one, key, text))]), axis: "ms",
    legend: stages.map((stage, i) => [partColour(i), stage]),
    table: {caption: "Each start, ms", head: ["Start", "it listens", "first token"], rows: eachStart}});
}

function startupSection(results) {
  if (results.length === 0) return [];
  const summary = MOMENTS.flatMap(([key, text]) => ["mean", "p50", "max"].map((statistic) =>
    valueRow(`Until ${text}, ${statistic}, ms`, results, [key, statistic])));
  summary.push(valueRow("Idle, % of one core", results, ["idle_cpu_percent"]), valueRow("Resident, MiB", results, ["resident_bytes"], 2 ** -20));
  const rows = results.flatMap((one) => [[nameCell(one)],
    ...MOMENTS.map(([key, text]) => summaryRow(`until ${text}`, memberOf(one.json, key))),
    ...keysAt(one.json, "stage_ms").map((stage) => summaryRow(`stage ${stage}`, one.json.stage_ms[stage]))]);
  return [beside(results, tableCard({caption: "Starts side by side", head: nameHead(results), rows: summary}), startupPlot(results)),
    tableCard({caption: "Starts, ms", head: summaryHead("ms"), rows})];
}

const IDLE_COLOUR = "var(--line)";

function deviceBar({name, json, colour}) {
  const period = numberIn(json, "period_us", "mean");
  const gap = numberIn(json, "gap_us", "mean") ?? 0;
  return {name: `${name}: device`, end: withUnit(period, "us"),
    parts: [stagePart("idle before the step", gap, IDLE_COLOUR, "us"), stagePart("step", (period ?? 0) - gap, shade(colour), "us")]};
}

function hostBar({json}, stages) {
  const parts = stageParts(json, "host_us", stages, "us");
  return {name: "host", parts, end: withUnit(sumOf(parts), "us"), belongsToLast: true};
}

const stepRows = (json) => [summaryRow("device: step, end to end", memberOf(json, "period_us")),
  summaryRow("device: gap before it", memberOf(json, "gap_us")),
  ...keysAt(json, "host_us").map((stage) => summaryRow(`host: ${stage}`, json.host_us[stage]))];

function timelineSection(results) {
  if (results.length === 0) return [];
  const stages = unique(results.map(({json}) => keysAt(json, "host_us")));
  const busy = results.map(({json}) => {
    const idle = numberAt(json, "idle_share");
    return valueText(idle === null ? null : 1 - idle, 100);
  });
  const rows = [valueRow("Tokens per second", results, ["tokens_per_s"]), ["Device busy, %", ...busy],
    valueRow("Device idle between steps, %", results, ["idle_share"], 100), valueRow("Steps", results, ["steps"]),
    valueRow("Their time, ms", results, ["wall_us"], 1e-3), valueRow("Of it busy, ms", results, ["busy_us"], 1e-3),
    valueRow("Step, median, us", results, ["period_us", "p50"])];
  const plot = barPlotOf({title: "A step of the device and of the host",
    note: "Means. The host works while the device does: wait is the step's own time.",
    rows: results.flatMap((one) => [deviceBar(one), hostBar(one, stages)]), axis: "us",
    legend: [[IDLE_COLOUR, "device idle"], ...stages.map((stage, i) => [partColour(i), stage])],
    table: {caption: "Microseconds a step", head: summaryHead("us a step"), rows: results.flatMap((one) => [[nameCell(one)], ...stepRows(one.json)])}});
  return [beside(results, tableCard({caption: "Steady decode", head: nameHead(results), rows}), plot)];
}

// Whether a metric is the share of items that are right.
const isShare = (metric) => ["exact_match", "acc", "acc_norm"].includes(metric) || metric.startsWith("share_");

function scoreRows(group, results, keys) {
  const objects = results.map(({json}) => keys.reduce(memberOf, json));
  const metrics = unique(objects.map((object) => keysAt({object}, "object")));
  if (metrics.length === 0) return [];
  return [[group], ...metrics.map((metric) => [nameText(metric) + (isShare(metric) ? ", %" : ""),
    ...objects.map((object) => valueText(numberAt(object, metric), isShare(metric) ? 100 : 1))])];
}

function scoreBars(results, task) {
  return ["exact_match", "acc"].flatMap((metric) => results
    .map(({name, json, colour}) => ({name, colour, share: numberIn(json, "results", task, metric)})).filter(({share}) => share !== null)
    .map(({name, colour, share}, i) => ({name: i === 0 ? `${task}, ${metric}` : "", end: withUnit(100 * share, "%"), belongsToLast: i > 0,
      parts: [{length: 100 * share, colour: shade(colour), text: `${name}, ${task}, ${metric}: ${withUnit(100 * share, "%")}`}]})));
}

function qualitySection(results) {
  if (results.length === 0) return [];
  const tasks = unique(results.map(({json}) => keysAt(json, "results")));
  const table = () => ({caption: "Scores", head: nameHead(results), rows: [
    valueRow("Failed", results, ["failed"]), valueRow("Not asked", results, ["unasked"]),
    ...tasks.flatMap((task) => scoreRows(task, results, ["results", task])),
    ...scoreRows("Compared with recorded answers", results, ["comparison"])]});
  const rows = tasks.flatMap((task) => scoreBars(results, task));
  if (rows.length === 0) return [tableCard(table())];
  return [beside(results, tableCard(table()), barPlotOf({title: "What is right", rows, axis: "%", least: 100, table: table(),
    legend: nameLegend(results)}))];
}

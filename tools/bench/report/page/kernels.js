// Kernels: each operation's time against the limit. Rows of the same name of several results belong
// together, and the time of one is compared with that of the first result.

// A kind of rows: the name of one, the length of its bar, its time in us, and its text. A column: [title, keys, factor,
// isShare]; of a limit there is no share above 1.
const shareOfLimit = (row) => {
  const share = numberAt(row, "share_of_limit");
  return share !== null && share <= 1 ? 100 * share : null;
};
const callsText = (row) => {
  const count = numberAt(row, "count") ?? 1;
  return (count === 1 ? "" : `${numberText(count)} × `) + withUnit(numberAt(row, "us"), "us");
};
const SHARE_COLUMN = ["% of the limit", ["share_of_limit"], 100, true];
const OPERATIONS = {
  nameOf: (row) => `${textAt(row, "op")} ${textAt(row, "shape")}`,
  lengthOf: shareOfLimit,
  usOf: (row) => numberAt(row, "us"),
  textOf: callsText,
  axis: "% of the limit",
  reference: 100,
  note: "The limit is what the device reads or multiplies at most; from a cache it reads faster, and then there is no share.",
  columns: [["calls", ["count"]], ["us a call", ["us"]], ["limit, us", ["limit_us"]], SHARE_COLUMN, ["TB/s", ["tb_s"]],
    ["TFLOP/s", ["tflops"]]],
};
const STEPS = {...OPERATIONS, nameOf: (row) => textAt(row, "title"), columns: [["us", ["us"]], ["limit, us", ["limit_us"]], SHARE_COLUMN]};
const ATTENTION = {...OPERATIONS, columns: [["plan, us", ["plan_us"]], ...OPERATIONS.columns.slice(1),
  ["of bfloat16's time", ["time_over_bfloat16"]]]};
const GEMMS = {...OPERATIONS, columns: [...OPERATIONS.columns.slice(1), ["the other library's, us", ["peer_us"]],
  ["times as fast as it", ["times_as_fast"]]]};

// Rows that say how many times as fast one way is as another.
function speedUps(before, after, more) {
  return {lengthOf: (row) => numberAt(row, "speedup"), usOf: (row) => numberAt(row, after), reference: 1,
    textOf: (row) => `${numberText(numberAt(row, before) ?? 0)} → ${withUnit(numberAt(row, after), "us")}`, ...more};
}
const lengthsText = (row) => {
  const [query, seq] = [textAt(row, "query_len"), textAt(row, "seq_len")];
  return query === seq ? seq : `${query} of ${seq}`;
};
const CASCADES = speedUps("plain_us", "cascade_us", {
  nameOf: (row) => `${textAt(row, "num_seqs")} x (${textAt(row, "prefix_len")} shared + ${textAt(row, "rest_len")})`,
  axis: "times as fast as reading the prefix with each sequence",
  columns: [["plain, us", ["plain_us"]], ["cascade, us", ["cascade_us"]], ["times as fast", ["speedup"]]]});
const RAGGED = speedUps("paged_us", "ragged_us", {
  nameOf: (row) => `${textAt(row, "kv_dtype")}, ${textAt(row, "num_seqs")} x ${lengthsText(row)}`,
  axis: "times as fast as reading new tokens from the cache",
  columns: [["paged, us", ["paged_us"]], ["ragged, us", ["ragged_us"]], ["ragged, TFLOP/s", ["ragged_tflops"]], ["times as fast", ["speedup"]]]});
const FORMATS = speedUps("bfloat16_us", "us", {
  nameOf: (row) => `${textAt(row, "format")}, ${textAt(row, "shape")}, ${textAt(row, "rows")} rows`,
  axis: "times as fast as bfloat16",
  columns: [["bfloat16, us", ["bfloat16_us"]], ["us", ["us"]], ["times as fast", ["speedup"]], ["TFLOP/s", ["tflops"]]]});

// With a column for each path that any row has.
function attentionPaths(results) {
  const autoUs = (row) => numberIn(row, "us", textAt(row, "auto"));
  const paths = unique(results.flatMap(({json}) => listAt(json, "attention_table").map((row) => keysAt(row, "us")))).slice(0, 8);
  return {
    nameOf: (row) => `${textAt(row, "kv_dtype")}, heads of ${textAt(row, "head_dim")}, ${textAt(row, "phase")} ${textAt(row, "num_seqs")} x ${
      textAt(row, "query_len") === "1" ? textAt(row, "seq_len") : lengthsText(row)}`,
    lengthOf: (row) => (numberAt(row, "auto_over_fastest") > 0 ? 100 / row.auto_over_fastest : null),
    usOf: autoUs,
    textOf: (row) => `${textAt(row, "auto")}, ${withUnit(autoUs(row), "us")}`,
    axis: "% of the fastest path's speed",
    reference: 100,
    note: "What --attention-backend auto chooses, against the fastest path.",
    columns: [...paths.map((path) => [`${path}, us`, ["us", path]]), ["auto over the fastest", ["auto_over_fastest"]]],
  };
}

// [{name, rows: one of each list, null where it has none}] in the order in which they appear. The second of a name in a
// list belongs to the second of that name in others.
function matchRows({nameOf}, lists) {
  const all = new Map();
  lists.forEach((list, i) => {
    const counts = new Map();
    for (const row of list) {
      if (!isObject(row)) continue;
      const name = shortText(nameOf(row));
      const count = counts.get(name) || 0;
      counts.set(name, count + 1);
      const place = `${count} ${name}`;
      if (!all.has(place)) all.set(place, {name, rows: lists.map(() => null)});
      all.get(place).rows[i] = row;
    }
  });
  return [...all.values()];
}

// How many times as fast as the first result's; null of the first itself.
function speedUp({usOf}, rows, i) {
  const [first, own] = [usOf(rows[0]), usOf(rows[i])];
  return i === 0 || first === null || own === null || own <= 0 ? null : first / own;
}

const haveRows = (results, matched) => results.map((_, i) => matched.some(({rows}) => rows[i] !== null));

function matchedTable(caption, kind, results, matched) {
  const have = haveRows(results, matched);
  const head = [""];
  results.forEach((one, i) => {
    if (!have[i]) return;
    const texts = [...(i > 0 ? ["times as fast"] : []), ...kind.columns.map(([title]) => title)];
    head.push(...texts.map((text) => (results.length === 1 ? text : nameCell(one, `: ${text}`))));
  });
  const cellOf = (row, [, keys, factor, isShare]) => {
    const value = numberIn(row, ...keys);
    return isShare && value > 1 ? "–" : valueText(value, factor);
  };
  const rows = matched.map(({name, rows: own}) => [name, ...own.flatMap((row, i) => (!have[i] ? []
    : [...(i > 0 ? [ratioText(speedUp(kind, own, i))] : []), ...kind.columns.map((column) => cellOf(row, column))]))]);
  return {caption, head, rows};
}

// The bars of all results that have this row.
function matchedBars(kind, results, {name, rows}) {
  const first = rows.findIndex((row) => row !== null);
  return rows.flatMap((row, i) => {
    if (row === null) return [];
    const ratio = speedUp(kind, rows, i);
    const end = kind.textOf(row) + (ratio === null ? "" : `, ${ratioText(ratio)}`);
    const text = `${results.length > 1 ? `${results[i].name}, ` : ""}${name}: ${end}; ${withUnit(kind.lengthOf(row), kind.axis)}`;
    return [{name: i === first ? name : "", end, belongsToLast: i !== first,
      parts: [{length: kind.lengthOf(row), colour: shade(results[i].colour), text}]}];
  });
}

function matchedPlot(title, kind, results, matched) {
  if (matched.length === 0) return [];
  const have = haveRows(results, matched);
  return [barPlotOf({title, note: kind.note, rows: matched.flatMap((one) => matchedBars(kind, results, one)), axis: kind.axis,
    least: kind.reference, marks: [{x: kind.reference, text: ""}], table: matchedTable(title, kind, results, matched),
    legend: results.length === 1 ? [] : nameLegend(results.filter((_, i) => have[i]))})];
}

const FIGURES = {read_ceiling_tb_s: "Reads at most, TB/s", copy_ceiling_tb_s: "Reads and writes at most, copying, TB/s",
  gemm_ceiling_tflops: "Multiplies at most, TFLOP/s", decode_attn_read_ratio: "Decode attention's reads, of the most",
  decode_attn_skew_ratio: "Decode attention, skewed lengths over even ones", prefill_attn_tflops: "Prefill attention, TFLOP/s"};

function figuresTable(results) {
  const keys = unique(results.map(({json}) => keysAt(json, "figures")));
  const name = (key) => (Object.hasOwn(FIGURES, key) ? FIGURES[key] : nameText(key));
  return {caption: "Figures", head: nameHead(results), rows: keys.map((key) => [name(key), ...results.map(({json}) => {
    const value = numberIn(json, "figures", key);
    return key === "decode_attn_read_ratio" && value > 1 ? "–" : valueText(value);  // as of the operations' shares
  })])};
}

function skippedCases(results) {
  const gib = (row, key) => numberText((numberAt(row, key) ?? 0) / 2 ** 30);
  return notice(results.flatMap(({name, json}) => listAt(json, "skipped").map((row) => element("li", "",
    `${name}: skipped ${shortText(textAt(row, "name"))}, which needs ${gib(row, "needed_bytes")} GiB; ${gib(row, "free_bytes")} were free`))));
}

// Each step's operations.
function stepPlots(results, steps) {
  const plots = steps.flatMap(({name, rows}) => {
    const sums = rows.flatMap((row, i) => (row === null ? [] : [`${results.length > 1 ? `${results[i].name}: ` : ""}in all ${
      withUnit(numberAt(row, "us"), "us")}, ${withUnit(shareOfLimit(row), "% of the limit")}`]));
    const kind = {...OPERATIONS, note: sums.join("; ")};
    return matchedPlot(name, kind, results, matchRows(kind, rows.map((row) => listAt(row, "operations"))));
  });
  return plots.length === 0 ? [] : [element("div", "plots", ...plots)];
}

function kernelsSection(results) {
  if (results.length === 0) return [];
  const listsOf = (key) => results.map(({json}) => listAt(json, key));
  const steps = matchRows(STEPS, listsOf("steps"));
  const tables = [tableCard(figuresTable(results)), ...(steps.length === 0 ? [] : [tableCard(matchedTable("Steps", STEPS, results, steps))])];
  const plot = (title, key, kind) => matchedPlot(title, kind, results, matchRows(kind, listsOf(key)));
  // Several results have several columns each.
  return [...skippedCases(results), ...(results.length === 1 ? [beside(results, ...tables)] : tables), ...stepPlots(results, steps),
    ...plot("Attention", "attention", ATTENTION), ...plot("Attention paths", "attention_table", attentionPaths(results)),
    ...plot("Decodes that share a prefix", "cascade", CASCADES),
    ...plot("Prompts whose new tokens are read where a gemm leaves them", "ragged", RAGGED),
    ...plot("Gemms", "linear_table", GEMMS), ...plot("Gemms by format", "format_table", FORMATS),
    ...plot("Sampling", "sampling_table", OPERATIONS), ...plot("Gated delta nets", "delta_table", OPERATIONS),
    ...plot("Mixtures of experts", "experts_table", OPERATIONS)];
}

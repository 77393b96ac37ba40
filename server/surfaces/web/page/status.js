// What the server does: asks /status again and again while somebody looks, and shows it.
const POLL_MS = 2000;
const MAX_WAIT_MS = 10000;  // between two attempts while the server does not answer
const WINDOW_MS = 60000;    // of rates and percentiles of the last minute

// The value below which `share` of what a histogram has counted between two readings lies; null:
// nothing was counted.
function percentile(before, after, share) {
  const counts = after.counts.map((count, i) => count - before.counts[i]);
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total <= 0) return null;
  let below = 0;
  for (let i = 0; i < counts.length; ++i) {
    if (counts[i] > 0 && below + counts[i] >= share * total) {
      const low = i === 0 ? 0 : after.bounds[i - 1];
      if (i === after.bounds.length) return low;  // above all bounds
      return low + (after.bounds[i] - low) * (share * total - below) / counts[i];
    }
    below += counts[i];
  }
  return null;
}

// One answer of /status, and what it says together with those before it.
function makeSample(status, samples) {
  const sample = {time: status.now_seconds * 1000, status};
  const last = samples[samples.length - 1];
  const oldest = samples.find(({time}) => sample.time - time <= WINDOW_MS) || last;
  const {counters, kv_cache: cache, load} = status;
  const rate = (name) => {
    if (!last || sample.time <= last.time) return null;
    return (counters[name] - last.status.counters[name]) / (sample.time - last.time) * 1000;
  };
  const of = (name, share) => {
    if (!oldest) return null;
    const seconds = percentile(oldest.status[name], status[name], share);
    return seconds === null ? null : seconds * 1000;
  };
  const queried = oldest ? counters.prefix_queried_tokens - oldest.status.counters.prefix_queried_tokens : 0;
  const hits = oldest ? counters.prefix_hit_tokens - oldest.status.counters.prefix_hit_tokens : 0;
  return Object.assign(sample, {
    generated: rate("generated_tokens"),
    prompt: rate("prompt_tokens"),
    steps: rate("steps"),
    running: load.running,
    waiting: load.waiting,
    firstHalf: of("time_to_first_token_seconds", 0.5),
    firstMost: of("time_to_first_token_seconds", 0.95),
    betweenHalf: of("inter_token_seconds", 0.5),
    betweenMost: of("inter_token_seconds", 0.95),
    held: 100 * cache.held_blocks / cache.num_blocks,
    cached: 100 * cache.cached_blocks / cache.num_blocks,
    hitShare: queried > 0 ? 100 * hits / queried : null,
  });
}

const SPANS = [60, 120, 300];  // seconds of the axis of time: the first that holds what there is
const PLOT_SECONDS = SPANS[SPANS.length - 1];
const LIVE_COLOURS = ["var(--accent)", "var(--second)"];

// A plot of the last minutes, with the numbers of now in its legend.
class LivePlot {
  // series: [{name, of: sample => number or null}]; the axis ends at `least`, at least.
  constructor({title, note, series, text, least}) {
    Object.assign(this, {series, text, least, samples: []});
    this.plot = new Plot({title, note, zooms: false});
    this.card = this.plot.card;
  }

  set(samples) {
    const chosen = this.samples[this.plot.stop];
    this.samples = samples;
    const last = samples[samples.length - 1];
    const age = (sample) => (sample.time - last.time) / 1000;
    const span = SPANS.find((seconds) => -age(samples[0]) <= seconds) || PLOT_SECONDS;
    const values = samples.flatMap((sample) => this.series.map(({of}) => of(sample) || 0));
    const tell = (value) => (value === null ? "–" : this.text(value));
    this.plot.stop = samples.indexOf(chosen);
    this.plot.set({
      x: this.timeAxis(span, last),
      y: Axis.linear("", Math.max(this.least, ...values), {most: 4, text: this.text, tell}),
      series: this.series.map(({name, of}, i) => ({name, value: tell(of(last)), colour: LIVE_COLOURS[i], filled: i === 0,
        points: samples.map((sample, at) => [age(sample), this.isAfterGap(at) ? null : of(sample)])})),
    });
    if (this.plot.stop < 0) this.plot.choose(-1);
  }

  // The first answer after some were missing: no line leads to it.
  isAfterGap(i) {
    return i > 0 && this.samples[i].time - this.samples[i - 1].time > 4 * POLL_MS;
  }

  timeAxis(span, last) {
    const isShort = span < PLOT_SECONDS;
    const text = (seconds) => (seconds === 0 ? "now" : isShort ? `−${-seconds} s` : `−${-seconds / 60} min`);
    const axis = new Axis({min: -span, max: 0, text, tell: (seconds) => format.clock(last.time + 1000 * seconds)});
    const step = isShort ? span / 4 : 60;
    axis.ticks = () => Array.from({length: span / step + 1}, (_, i) => i * step - span);
    return axis;
  }
}

const PLOTS = [
  {title: "Tokens per second", text: format.number, least: 10, series: [
    {name: "generated", of: (s) => s.generated}, {name: "prompt", of: (s) => s.prompt}]},
  {title: "Requests", text: format.number, least: 2, series: [
    {name: "running", of: (s) => s.running}, {name: "waiting", of: (s) => s.waiting}]},
  {title: "Time to first token", note: "last minute", text: format.ms, least: 10, series: [
    {name: "p50", of: (s) => s.firstHalf}, {name: "p95", of: (s) => s.firstMost}]},
  {title: "Between tokens", note: "last minute", text: format.ms, least: 2, series: [
    {name: "p50", of: (s) => s.betweenHalf}, {name: "p95", of: (s) => s.betweenMost}]},
  {title: "KV cache", text: format.percent, least: 1, series: [
    {name: "in use", of: (s) => s.held}, {name: "for prefixes", of: (s) => s.cached}]},
  {title: "Prefix cache hits", note: "last minute", text: format.percent, least: 100,
    series: [{name: "of prompt tokens", of: (s) => s.hitShare}]},
];

class StatusView {
  // `onTrouble(sentence)`: shown until it is called again; empty: all is well.
  constructor(onTrouble, onRefused) {
    this.onTrouble = onTrouble;
    this.onRefused = onRefused;
    this.plots = PLOTS.map((options) => new LivePlot(options));
    $("plots").append(...this.plots.map(({card}) => card));
    this.samples = [];
    this.failures = 0;
    this.timer = null;
    this.running = false;
    this.seenEnded = null;
    this.seesRequests = true;
    document.addEventListener("visibilitychange", () => {
      if (!this.running) return;
      clearTimeout(this.timer);
      if (!document.hidden) this.poll();
    });
  }

  start(status) {
    this.running = true;
    this.seesRequests = true;
    this.seenEnded = null;
    this.show(status);
    this.schedule(POLL_MS);
  }

  stop() {
    this.running = false;
    clearTimeout(this.timer);
  }

  schedule(wait) {
    clearTimeout(this.timer);
    if (this.running && !document.hidden) this.timer = setTimeout(() => this.poll(), wait);
  }

  async poll() {
    if (this.polling) return;
    this.polling = true;
    try {
      const answer = await call("/status", {signal: AbortSignal.timeout(MAX_WAIT_MS)});
      if (!this.running) return;
      if (answer.status === 401 || answer.status === 403) {
        this.stop();
        this.onRefused();
        return;
      }
      if (!answer.ok) throw new Error((await readError(answer)).sentence);
      const status = await answer.json();
      if (this.failures > 0) this.onTrouble("");
      this.failures = 0;
      this.show(status);
    } catch {
      ++this.failures;
      showState("unreachable", "no answer");
      this.onTrouble("The server does not answer. It may be restarting; this page goes on trying.");
    } finally {
      this.polling = false;
    }
    this.schedule(Math.min(POLL_MS * Math.max(1, this.failures), MAX_WAIT_MS));
  }

  show(status) {
    const last = this.samples[this.samples.length - 1];
    if (last && last.status.start_seconds !== status.start_seconds) {
      this.samples = [];
      this.seenEnded = null;
      this.onTrouble(`The server was started anew at ${format.clock(status.start_seconds * 1000)}.`);
    }
    const sample = makeSample(status, this.samples);
    this.samples = this.samples.filter(({time}) => sample.time - time <= PLOT_SECONDS * 1000);
    this.samples.push(sample);
    for (const plot of this.plots) plot.set(this.samples);
    this.showHead(status);
    this.showMemory(status.memory);
    this.showFacts(status, sample);
    if (this.seesRequests && status.counters.ended_requests !== this.seenEnded) {
      this.loadRequests(status);
    }
  }

  showHead({version, model, state, start_seconds: start, now_seconds: now}) {
    setText($("version"), version);
    setText($("model"), `${model.name} on ${model.device}`);
    document.title = `${model.name} · Quire`;
    showState(state, state, `up ${format.duration(now - start)}`);
  }

  showMemory({resident_bytes: resident, device_bytes: device, device_free_bytes: free, uses}) {
    const known = uses.reduce((sum, {bytes}) => sum + bytes, 0);
    const other = Math.max(0, device - free - known);
    const parts = [...uses];
    if (other > 0) parts.push({use: "others", bytes: other});
    parts.push({use: "free", bytes: free});
    const bar = element("div", "stack");
    bar.setAttribute("aria-hidden", "true");
    const list = element("dl", "facts");
    let shade = 0;
    for (const {use, bytes} of parts) {
      const kind = use === "free" || use === "others" ? use : `use-${shade++ % 6}`;
      const piece = element("i", kind);
      piece.style.flexGrow = bytes;
      bar.append(piece);
      list.append(this.fact(use, format.bytes(bytes), kind));
    }
    list.append(this.fact("process, resident", format.bytes(resident)));
    $("memory").replaceChildren(bar, list);
  }

  fact(name, value, swatch) {
    const term = element("dt");
    if (swatch) term.append(element("i", `swatch ${swatch}`));
    term.append(name);
    return element("div", "", term, element("dd", "", value));
  }

  showFacts({model, load, kv_cache: cache, recurrent_states: states, counters}, {steps}) {
    const {prefix_hit_tokens: hits, prefix_queried_tokens: queried} = counters;
    this.setFacts("facts", [
      ["requests finished", format.count(counters.finished)],
      ["refused", format.count(counters.refused)],
      ["preempted", format.count(counters.preemptions)],
      ["prompt tokens", format.count(counters.prompt_tokens)],
      ["generated tokens", format.count(counters.generated_tokens)],
      ["prompt tokens found in the cache", !cache.shares_prefixes ? "off"
        : queried > 0 ? format.percent(100 * hits / queried) : "–"],
      ["steps", steps === null ? format.count(counters.steps)
        : `${format.count(counters.steps)} (${format.number(steps)} a second)`],
      ["prompt tokens that wait", format.count(load.waiting_prompt_tokens)],
      ["paused by slow readers", format.count(load.paused)],
      ["connections", format.count(load.connections)],
    ]);
    this.setFacts("model-facts", [
      ["architecture", model.architecture],
      ["parameters", `${format.parameters(model.num_parameters)}, ${model.dtype}`],
      ["context", `${format.count(model.max_model_len)} tokens`],
      ["KV cache", `${format.count(cache.num_blocks)} × ${cache.block_size} tokens, ${model.kv_cache_dtype}`],
      ...states.num_slots > 0 ? [["recurrent states",
        `${format.count(states.num_slots)} × ${format.bytes(states.bytes_each)}, ${format.count(states.snapshots)} snapshots`]] : [],
      ["runs at a time", `${format.count(load.max_running)} sequences`],
    ]);
  }

  setFacts(id, facts) {
    $(id).replaceChildren(...facts.map(([name, value]) => this.fact(name, value)));
  }

  async loadRequests(status) {
    const ended = status.counters.ended_requests;
    try {
      const answer = await call("/status/requests");
      if (answer.status === 403) this.seesRequests = false;
      if (!answer.ok) return;
      const {requests} = await answer.json();
      this.seenEnded = ended;
      $("requests-card").hidden = false;
      $("no-requests").hidden = requests.length > 0;
      $("requests").replaceChildren(...requests.map((request) => this.row(request)));
    } catch {
      // The next poll says so, if the server is gone.
    }
  }

  row(request) {
    const or = (value, tell) => (value === undefined ? "–" : tell(value));
    const cell = (text, className) => element("td", className || "", text);
    const name = (text) => {
      const td = element("td", "name", element("bdi", "", text || "–"));
      if (text) td.title = text;
      return td;
    };
    const well = request.status === "OK";
    const end = element("td", "", element("span", well ? "end" : "end bad",
      well ? request.finish_reason : request.status.toLowerCase().replaceAll("_", " ")));
    return element("tr", "",
      cell(format.clock(request.end_seconds * 1000)), name(request.id), name(request.principal),
      cell(request.surface), name(request.model),
      cell(or(request.prompt_tokens, format.count), "number"),
      cell(or(request.cached_tokens, format.count), "number"),
      cell(or(request.generated_tokens, format.count), "number"),
      cell(or(request.queue_ms, format.number), "number"),
      cell(or(request.first_token_ms, format.number), "number"),
      cell(or(request.total_ms, format.number), "number"), end);
  }
}

// Changes of the state are read aloud; that time goes by is not.
function showState(state, text, uptime = "") {
  $("state").dataset.state = state;
  setText($("state"), text);
  setText($("uptime"), uptime);
}

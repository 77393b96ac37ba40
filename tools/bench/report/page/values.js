// Reads results. A file may have anything in any key: a value that is missing or has another type is null, and the page
// shows "–".

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

function memberOf(json, key) {
  return isObject(json) && Object.hasOwn(json, key) ? json[key] : null;
}

function listAt(json, key) {
  const list = memberOf(json, key);
  return Array.isArray(list) ? list : [];
}

function keysAt(json, key) {
  const object = memberOf(json, key);
  return isObject(object) ? Object.keys(object) : [];
}

function numberAt(json, key) {
  const value = memberOf(json, key);
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

// A number at the end of a way of keys.
function numberIn(json, ...keys) {
  const last = keys.pop();
  return numberAt(keys.reduce(memberOf, json), last);
}

// Text or number as text; empty for anything else.
function textAt(json, key) {
  const value = memberOf(json, key);
  return ["string", "number", "boolean"].includes(typeof value) ? String(value) : "";
}

const valueText = (value, factor = 1) => (value === null ? "–" : numberText(factor * value));
const withUnit = (value, unit) => (value === null ? "–" : `${numberText(value)} ${unit}`);
const ratioText = (ratio) => (ratio === null ? "–" : `${ratio.toFixed(2)}×`);

// Cut where it is too long for a page.
const LONGEST_TEXT = 300;
const shortText = (text) => (text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}…` : text);

const NAMES = {
  request_throughput: "Requests per second",
  request_goodput: "Good requests per second",
  output_throughput: "Output tokens per second",
  total_token_throughput: "Tokens per second in all",
  duration: "Seconds",
  decode_tokens_per_s: "Decoded tokens per second, median",
  max_output_tokens_per_s: "Most output tokens in a second",
};

// "Request rate" of "request_rate".
function nameText(key) {
  const text = key.replaceAll("_", " ");
  return Object.hasOwn(NAMES, key) ? NAMES[key] : text.charAt(0).toUpperCase() + text.slice(1);
}

const METRICS = {ttft: "Time to first token", tpot: "Time per output token", itl: "Inter-token latency",
  e2el: "End-to-end latency", client_queue_time: "Queued in the client"};

// Each of the lists' members once, in the order in which they appear.
const unique = (lists) => [...new Set(lists.flat())];

// Sorted samples; no percentile is an estimate.
class Distribution {
  constructor(samples) {
    this.sorted = Float64Array.from(samples).sort();
  }

  get count() {
    return this.sorted.length;
  }

  // By linear interpolation between closest ranks (numpy's default).
  percentile(percent) {
    if (this.count === 0) return 0;
    const rank = percent / 100 * (this.count - 1);
    const below = Math.floor(rank);
    const above = Math.min(below + 1, this.count - 1);
    return this.sorted[below] + (rank - below) * (this.sorted[above] - this.sorted[below]);
  }
}

// Plot: a card with a picture of numbers, of a server's page and of quire-bench's reports. The SVG is stretched to its
// place, and the texts of its axes are beside it, so that they stay readable at any width. It tells the numbers at the
// mouse or at what the arrow keys choose, and may be looked at closer along x.
const SVG_SIZE = 1000;  // of the SVG's own units, either way

const nines = (percent) => -Math.log10(1 - Math.min(percent, 99.9999999) / 100);
// "nines": of percentiles, where 90, 99 and 99.9 are as far apart as 0 and 90.
const SCALES = {linear: (value) => value, log: (value) => Math.log(Math.max(value, 1e-12)), nines};

// 1, 2 or 5 times a power of ten: at most `most` of it make `span`.
function axisStep(span, most = 6) {
  const power = 10 ** Math.floor(Math.log10(span / most));
  return [1, 2, 5, 10].map((factor) => factor * power).find((size) => size * most >= span * (1 - 1e-9));
}

class Axis {
  // `text` of a value at a tick, `tell` of one that is pointed at.
  constructor({label = "", scale = "linear", min = 0, max = 1, most = 6, text = null, tell = null}) {
    Object.assign(this, {label, scale, min, max, most});
    this.text = text || (scale === "nines" ? (value) => `p${Number(value.toPrecision(6))}` : numberText);
    this.tell = tell || (scale === "nines" ? (value) => `p${Number(value.toPrecision(4))}`
      : (value) => `${numberText(value)} ${label}`);
    this.to = SCALES[scale];
  }

  // From 0 to a round number at or above `highest`.
  static linear(label, highest, more = {}) {
    if (!(highest > 0 && Number.isFinite(highest))) highest = 1;
    const step = axisStep(highest, more.most);
    return new Axis({label, max: step * Math.ceil(highest / step * (1 - 1e-9)), ...more});
  }

  // Round numbers around the values that are above zero.
  static log(label, values) {
    let least = Infinity;
    let most = 0;
    for (const value of values) {
      if (!(value > 0 && Number.isFinite(value))) continue;
      least = Math.min(least, value);
      most = Math.max(most, value);
    }
    if (most === 0) least = most = 1;
    least = Math.max(least, most / 1e4);  // what is below would only press the rest together
    const steps = (value) => [1, 2, 5, 10].map((factor) => factor * 10 ** Math.floor(Math.log10(value)));
    const min = steps(least).filter((step) => step <= least * (1 + 1e-12)).pop();
    const max = steps(most).find((step) => step >= most * (1 - 1e-12));
    return new Axis({label, scale: "log", min, max: max < min * 4 ? min * 10 : max});
  }

  // As far as the percentiles of that many samples reach.
  static nines(label, count) {
    const decades = Math.min(Math.max(Math.log10(count), 1), 5);
    return new Axis({label, scale: "nines", max: 100 * (1 - 10 ** -decades)});
  }

  // From 0 at min to 1 at max, and not beyond.
  place(value) {
    if (this.scale === "log" && value <= this.min) return 0;
    const place = (this.to(value) - this.to(this.min)) / (this.to(this.max) - this.to(this.min));
    return Number.isFinite(place) ? Math.min(Math.max(place, 0), 1) : 0;
  }

  // Round values, at most about ten, between two places of a linear axis, else on all of it.
  ticks(from = 0, to = 1) {
    if (this.scale === "nines") {
      return [0, 50, 90, 99, 99.9, 99.99, 99.999].filter((percent) => percent <= this.max * (1 + 1e-9));
    }
    if (this.scale === "log") return this.logTicks();
    const at = (place) => this.min + place * (this.max - this.min);
    const step = axisStep(at(to) - at(from), this.most);
    const ticks = [];
    for (let i = Math.ceil(at(from) / step - 1e-9); i * step <= at(to) + step * 1e-6; ++i) ticks.push(i * step);
    return ticks;
  }

  logTicks() {
    const decades = Math.log10(this.max / this.min);
    const factors = decades <= 3.1 ? [1, 2, 5] : decades <= 5 ? [1, 3] : [1];
    const ticks = [];
    for (let exponent = Math.floor(Math.log10(this.min)); exponent <= Math.ceil(Math.log10(this.max)); ++exponent) {
      ticks.push(...factors.map((factor) => factor * 10 ** exponent));
    }
    return ticks.filter((value) => value >= this.min * 0.999 && value <= this.max * 1.001);
  }
}

function swatch(colour, isDashed) {
  const node = element("i", isDashed ? "swatch dashed" : "swatch");
  node.style.setProperty("--shade", colour);
  return node;
}

const percentText = (share) => `${(100 * share).toFixed(2)}%`;

class Plot {
  // set() brings the data. `zooms`: whether readers may look closer.
  constructor({title, note = "", zooms = true}) {
    this.title = title;
    this.zooms = zooms;
    const caption = element("figcaption", "", element("h3", "", title));
    if (note) caption.append(element("p", "quiet", note));
    this.legend = element("ul", "legend");
    this.ys = element("div", "ys");
    this.xs = element("div", "xs");
    this.ends = element("div", "ends");
    this.yLabel = element("div", "y-label quiet");
    this.xLabel = element("div", "x-label quiet");
    this.svg = svgElement("svg", {viewBox: `0 0 ${SVG_SIZE} ${SVG_SIZE}`, preserveAspectRatio: "none", "aria-hidden": "true"});
    this.sheet = element("div", "sheet");
    this.line = element("div", "chosen");
    this.brush = element("div", "brush");
    this.tip = element("div", "tip");
    this.area = element("div", "area", this.sheet, this.line, this.brush);
    this.frame = element("div", "frame", this.yLabel, this.ys, this.area, this.ends, this.xs, this.xLabel);
    this.card = element("figure", "card plot", caption, this.legend, this.frame, this.tip);
    this.line.hidden = this.brush.hidden = this.tip.hidden = true;
    this.area.tabIndex = 0;
    const attributes = {role: "slider", "aria-label": title, "aria-valuemin": 0, "aria-valuenow": 0, "aria-valuetext": "nothing is chosen"};
    for (const [name, value] of Object.entries(attributes)) this.area.setAttribute(name, value);
    Object.assign(this, {from: 0, to: 1, stop: -1});
    this.listen();
  }

  // x, y: axes; in the place of y, `lanes` from top to bottom: {name, end, dots, lineAbove}, of a list (isList) with the
  // texts `end` beside it. series: {name, value, colour, dashed, dots, line, filled, points: [[x, y or null]], texts};
  // bars: {begin, end, lane, colour, label, text}; cells: {x: [from, to], y: [from, to], heat: 0 to 1, text};
  // marks: {x, text}; legend: [colour, name]. Colours are CSS's.
  set({x, y = new Axis({}), lanes = [], isList = false, series = [], bars = [], cells = [], marks = [], legend = [], heatColour = ""}) {
    Object.assign(this, {x, y, lanes, isList, heatColour});
    this.frame.className = isList ? "frame bars" : lanes.length > 0 ? "frame lanes" : "frame";
    this.frame.style.setProperty("--lanes", lanes.length);
    this.series = series.map((one) => ({line: true, texts: [], ...one,
      places: one.points.map(([px, py]) => [x.place(px), py === null ? null : 1 - y.place(py)])}));
    setText(this.yLabel, y.label + (y.scale === "log" ? ", logarithmic" : ""));
    setText(this.xLabel, x.label);
    this.sheet.replaceChildren(this.svg);
    this.svg.replaceChildren();
    this.drawGrid();
    // The first series last, above the others.
    for (let i = this.series.length - 1; i >= 0; --i) this.drawSeries(this.series[i], i);
    this.bars = [...cells.map((cell) => this.drawCell(cell)), ...bars.map((bar) => this.drawBar(bar))].filter((bar) => bar);
    this.drawLaneDots();
    for (const mark of marks) this.drawMark(mark);
    this.ends.replaceChildren(...(isList ? lanes.map(({end}) => element("span", "", end)) : []));
    this.drawLegend(legend);
    this.stops = this.bars.length > 0 ? this.bars.map((_, i) => i) : this.findStops();
    this.area.setAttribute("aria-valuemax", Math.max(this.stops.length - 1, 0));
    if (this.zooms && x.scale === "linear" && !this.reset) this.addZoom();
    this.show(this.from, this.to);
  }

  drawPath(className, d, colour) {
    const path = svgElement("path", {class: className, d});
    if (colour) path.style.stroke = colour;
    this.svg.append(path);
  }

  laneHeight() {
    return SVG_SIZE / this.lanes.length;
  }

  drawGrid() {
    let path = this.x.ticks().map((tick) => `M${(SVG_SIZE * this.x.place(tick)).toFixed(1)} 0V${SVG_SIZE}`).join("");
    const spanAt = (place, text) => {
      const span = element("span", "", text);
      span.style.top = percentText(place);
      return span;
    };
    if (this.lanes.length === 0) {
      const ticks = this.y.ticks();
      path += ticks.map((tick) => `M0 ${(SVG_SIZE * (1 - this.y.place(tick))).toFixed(1)}H${SVG_SIZE}`).join("");
      this.ys.replaceChildren(...ticks.map((tick) => spanAt(1 - this.y.place(tick), this.y.text(tick))));
    } else {
      path += this.lanes.map(({lineAbove}, i) => (lineAbove ? `M0 ${(this.laneHeight() * i).toFixed(1)}H${SVG_SIZE}` : "")).join("");
      this.ys.replaceChildren(...this.lanes.map(({name}, i) => spanAt((i + 0.5) / this.lanes.length, name)));
    }
    this.drawPath("grid", path);
  }

  // Dots are lines of no length with round ends: they stay round when the SVG is stretched.
  drawSeries({places, colour, dashed, dots, line, filled}, index) {
    const runs = [[]];
    for (const [px, py] of places) {
      if (py === null) runs.push([]);
      else runs[runs.length - 1].push([(SVG_SIZE * px).toFixed(1), (SVG_SIZE * py).toFixed(1)]);
    }
    const dotsOf = (points) => points.map(([px, py]) => `M${px} ${py}h0`).join("");
    const lines = runs.filter((points) => points.length > 1);
    const join = (points) => points.map((point) => point.join(" ")).join("L");
    if (filled) {
      const under = lines.map((points) => `M${points[0][0]} ${SVG_SIZE}L${join(points)}L${points[points.length - 1][0]} ${SVG_SIZE}Z`);
      const area = svgElement("path", {class: "under", d: under.join("")});
      area.style.fill = colour;
      this.svg.append(area);
    }
    if (line) {
      this.drawPath(`line series-${index}${dashed ? " dashed" : ""}`, lines.map((points) => `M${join(points)}`).join(""), colour);
      const alone = runs.filter((points) => points.length === 1).map(dotsOf).join("");
      if (alone && !dots) this.drawPath("knots", alone, colour);
    }
    if (dots) this.drawPath(line ? "knots" : "dots", runs.map(dotsOf).join(""), colour);
  }

  drawRect(className, [left, right], top, height, colour, text) {
    const rect = svgElement("rect", {class: className, x: left.toFixed(2), y: top.toFixed(1), width: (right - left).toFixed(2),
      height: height.toFixed(1), "data-text": text});
    rect.style.fill = colour;
    this.svg.append(rect);
    return rect;
  }

  drawCell({x, y, heat, text}) {
    const [bottom, top] = y.map((value) => SVG_SIZE * (1 - this.y.place(value)));
    const rect = this.drawRect("heat", x.map((value) => SVG_SIZE * this.x.place(value)), top, bottom - top, this.heatColour, text);
    rect.style.fillOpacity = 0.12 + 0.88 * heat;
    return rect;
  }

  // Null where it has no length.
  drawBar({begin, end, lane, colour, label, text}) {
    const [left, right] = [begin, end].map((value) => SVG_SIZE * this.x.place(value));
    if (right <= left) return null;
    const height = this.laneHeight();
    if (label) {
      const node = element("span", "bar-label", element("b", "", label));
      Object.assign(node.style, {left: percentText(left / SVG_SIZE), width: percentText((right - left) / SVG_SIZE),
        top: percentText(lane / this.lanes.length), height: percentText(1 / this.lanes.length)});
      this.sheet.append(node);
    }
    return this.drawRect("", [left, right], height * (lane + 0.12), 0.76 * height, colour, text);
  }

  // What was measured one by one, on the bars of lanes.
  drawLaneDots() {
    const at = (value, i) => `M${(SVG_SIZE * this.x.place(value)).toFixed(1)} ${(this.laneHeight() * (i + 0.5)).toFixed(1)}h0`;
    const dots = this.lanes.map(({dots: own = []}, i) => own.map((value) => at(value, i)).join("")).join("");
    if (dots === "") return;
    this.drawPath("samples-edge", dots);
    this.drawPath("samples", dots);
  }

  drawMark({x, text}) {
    const place = this.x.place(x);
    this.drawPath("mark", `M${(SVG_SIZE * place).toFixed(1)} 0V${SVG_SIZE}`);
    if (!text) return;
    const label = element("span", place > 0.5 ? "mark-label before" : "mark-label", text);
    label.style.left = percentText(place);
    this.sheet.append(label);
  }

  drawLegend(legend) {
    const items = [...legend.map(([colour, name]) => [swatch(colour), name]),
      ...this.series.map(({colour, dashed, name, value}) => [swatch(colour, dashed), name, ...(value ? [" ", element("b", "", value)] : [])])];
    this.legend.replaceChildren(...items.map((parts) => element("li", "", ...parts)));
  }

  // Where the arrow keys stop: every x that a line has, or every dot from left to right.
  findStops() {
    const places = this.series.flatMap(({places: all}) => all.map(([px]) => px));
    return [...new Set(places)].sort((a, b) => a - b);
  }

  addZoom() {
    const button = (text, name, action) => {
      const node = textButton(text, "", action);
      node.setAttribute("aria-label", `${name}: ${this.title}`);
      return node;
    };
    this.reset = button("All", "see all", () => this.show(0, 1));
    this.card.append(element("div", "zooms", this.reset, button("−", "zoom out", () => this.zoom(2)), button("+", "zoom in", () => this.zoom(0.5))));
  }

  listen() {
    let pressed = null;
    const shareOf = (event) => {
      const box = this.area.getBoundingClientRect();
      return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    };
    this.area.addEventListener("pointermove", (event) => {
      const [x, y] = shareOf(event);
      if (pressed !== null && this.reset) {
        const [left, right] = [Math.min(pressed, x), Math.max(pressed, x)].map((share) => Math.min(Math.max(share, 0), 1));
        this.brush.hidden = right - left < 0.02;
        this.brush.style.left = percentText(left);
        this.brush.style.width = percentText(right - left);
      }
      this.pointAt(x, y, event.target);
    });
    this.area.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse" && event.button === 0) [pressed] = shareOf(event);
    });
    window.addEventListener("pointerup", (event) => {
      if (pressed !== null && !this.brush.hidden) {
        const [left, right] = [pressed, shareOf(event)[0]].sort((a, b) => a - b);
        const span = this.to - this.from;
        this.show(this.from + left * span, this.from + right * span);
      }
      pressed = null;
      this.brush.hidden = true;
    });
    this.area.addEventListener("dblclick", () => this.show(0, 1));
    for (const name of ["pointerleave", "blur"]) this.area.addEventListener(name, () => this.choose(-1));
    this.area.addEventListener("keydown", (event) => this.onKey(event));
  }

  onKey(event) {
    const last = this.stops.length - 1;
    const [before, after] = [this.stop < 0 ? last : this.stop - 1, this.stop + 1];
    const next = {ArrowLeft: before, ArrowRight: after, Home: 0, End: last, ...(this.isList && {ArrowUp: before, ArrowDown: after})}[event.key];
    if (next !== undefined && last >= 0) {
      this.choose(Math.min(Math.max(next, 0), last));
      if (this.isList) this.bars[this.stop].scrollIntoView({block: "nearest"});
    }
    else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "0") this.show(0, 1);
    else if (event.key === "Escape") this.choose(-1);
    else return;
    event.preventDefault();
  }

  pointAt(x, y, target) {
    if (this.bars.length > 0) {
      const own = this.bars.indexOf(target);
      this.choose(own < 0 && this.isList ? this.barBeside(x, y) : own, [x, y]);
      return;
    }
    const place = this.from + x * (this.to - this.from);
    let best = -1;
    this.stops.forEach((stop, i) => {
      if (best < 0 || Math.abs(stop - place) < Math.abs(this.stops[best] - place)) best = i;
    });
    this.choose(best, [x, y]);
  }

  // The bar of the line at y that is nearest to x: some are too short to point at.
  barBeside(x, y) {
    const place = this.from + x * (this.to - this.from);
    let best = -1;
    this.bars.forEach((bar, i) => {
      const {y: top, height} = bar;
      const isBeside = Math.abs(top.baseVal.value + height.baseVal.value / 2 - SVG_SIZE * y) < 0.66 * height.baseVal.value;
      if (isBeside && (best < 0 || Math.abs(this.placeOf(i) - place) < Math.abs(this.placeOf(best) - place))) best = i;
    });
    return best;
  }

  zoom(factor) {
    if (!this.reset) return;
    const middle = this.stop < 0 ? (this.from + this.to) / 2 : this.placeOf(this.stop);
    const half = Math.min((this.to - this.from) * factor, 1) / 2;
    const from = Math.min(Math.max(middle - half, 0), 1 - 2 * half);
    this.show(from, from + 2 * half);
  }

  // The part of x from one place to another.
  show(from, to) {
    from = Math.max(from, 0);
    to = Math.min(to, 1);
    if (to - from < 1e-3) return;
    Object.assign(this, {from, to});
    this.sheet.style.width = `${100 / (to - from)}%`;
    this.sheet.style.left = `${-100 * from / (to - from)}%`;
    const isWhole = from === 0 && to === 1;
    const exact = (tick) => Number(tick.toPrecision(6)).toLocaleString(LOCALE, {maximumSignificantDigits: 6});
    this.xs.replaceChildren(...this.x.ticks(from, to).map((tick) => {
      const node = element("span", "", isWhole ? this.x.text(tick) : exact(tick));
      node.style.left = percentText((this.x.place(tick) - from) / (to - from));
      return node;
    }));
    if (this.reset) this.reset.hidden = isWhole;
    if (this.stop >= 0) this.choose(Math.min(this.stop, this.stops.length - 1));
  }

  placeOf(stop) {
    if (this.bars.length === 0) return this.stops[stop];
    const {x, width} = this.bars[stop];
    return (x.baseVal.value + width.baseVal.value / 2) / SVG_SIZE;
  }

  // The point of a series that is told at a place: of dots the nearest to the pointer, too.
  nearest({line, places}, place, at) {
    let best = -1;
    let least = Infinity;
    places.forEach(([px, py], i) => {
      const high = line || !at ? 0 : (py - at[1]) * 0.5 * (this.to - this.from);
      const away = Math.hypot(px - place, high);
      if (away < least) [best, least] = [i, away];
    });
    const isFar = least > (line ? 0.06 : 0.03) * (this.to - this.from);
    return isFar ? -1 : best;
  }

  tell(place, at) {
    const rows = [];
    let told = null;
    for (const one of this.series) {
      const i = this.nearest(one, at && !one.line ? this.from + at[0] * (this.to - this.from) : place, at);
      if (i < 0) continue;
      const [px, py] = one.points[i];
      if (told === null) told = px;
      const own = one.texts[i] ? ` ${one.texts[i]}` : one.line ? "" : ` at ${numberText(px)}`;
      rows.push(element("span", "", swatch(one.colour), `${one.name}${own}: `, element("b", "", py === null ? "–" : this.y.tell(py))));
    }
    return told === null ? [] : [element("span", "quiet", this.x.tell(told)), ...rows];
  }

  choose(stop, at) {
    this.stop = stop;
    const rows = stop < 0 ? [] : this.bars.length > 0 ? [element("span", "", this.bars[stop].dataset.text)] : this.tell(this.placeOf(stop), at);
    this.line.hidden = this.tip.hidden = rows.length === 0;
    this.bars.forEach((bar, i) => bar.classList.toggle("told", i === stop));
    if (rows.length === 0) return;
    let place = this.placeOf(stop);
    if (place < this.from || place > this.to) {  // the keys went beyond what is shown
      const half = (this.to - this.from) / 2;
      const from = Math.min(Math.max(place - half, 0), 1 - 2 * half);
      this.show(from, from + 2 * half);
      return;
    }
    place = (place - this.from) / (this.to - this.from);
    this.line.style.left = percentText(place);
    this.line.hidden = this.bars.length > 0;
    this.tip.replaceChildren(...rows);
    this.area.setAttribute("aria-valuenow", stop);
    this.area.setAttribute("aria-valuetext", rows.map((row) => row.textContent).join(", "));
    this.placeTip(at ? at[0] : place);
  }

  // On the side of x that has more room; of a list below the bar, as the list may be long.
  placeTip(x) {
    const box = this.area.getBoundingClientRect();
    const own = this.card.getBoundingClientRect();
    const left = box.left - own.left + x * box.width;
    const isLeft = left > own.width / 2;
    this.tip.style.left = isLeft ? "auto" : `${left + 14}px`;
    this.tip.style.right = isLeft ? `${own.width - left + 14}px` : "auto";
    const {y, height} = this.isList ? this.bars[this.stop] : {};
    const below = this.isList ? (y.baseVal.value + height.baseVal.value) / SVG_SIZE * box.height + 4 : 6;
    this.tip.style.top = `${box.top - own.top + below}px`;
  }
}

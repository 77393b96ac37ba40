// Plot: a card with the numbers of now and what they were in the last minutes. With the mouse, or
// the arrow keys, it tells those of any moment.
const SPANS = [60, 120, 300];  // seconds of the axis of time: the first that holds what there is
const PLOT_SECONDS = SPANS[SPANS.length - 1];
const PLOT_HEIGHT = 132;
const MARGIN = {top: 8, right: 10, bottom: 20, left: 46};

// 0 and two to four steps of 1, 2 or 5 times a power of ten, the last at or above `most`.
function axisTicks(most) {
  const power = 10 ** Math.floor(Math.log10(most / 2));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => most / size <= 4);
  const ticks = [];
  for (let i = 0; ticks.length === 0 || ticks[ticks.length - 1] < most; ++i) ticks.push(i * step);
  return ticks;
}

class Plot {
  // series: [{name, of: sample => number or null}]; `most`: the axis ends there, at least.
  constructor({title, note, series, text, least, most}) {
    this.title = title;
    this.series = series;
    this.text = text;
    this.least = least;
    this.most = most || 0;
    this.samples = [];
    this.chosen = null;  // index of the sample that is told
    this.legend = element("ul", "legend");
    this.values = series.map(({name}, i) => {
      const value = element("b", "", "–");
      this.legend.append(element("li", "", element("i", `swatch series-${i}`), `${name} `, value));
      return value;
    });
    this.svg = svgElement("svg", {"aria-hidden": "true", height: PLOT_HEIGHT});
    this.tip = element("div", "tip");
    this.tip.hidden = true;
    this.area = element("div", "area", this.svg, this.tip);
    this.area.tabIndex = 0;
    // Announces what the arrow keys choose.
    for (const [name, value] of [["role", "slider"], ["aria-label", title],
      ["aria-valuemin", "0"], ["aria-valuemax", "0"], ["aria-valuenow", "0"]]) {
      this.area.setAttribute(name, value);
    }
    const heading = element("h3", "", title);
    if (note) heading.append(element("small", "quiet", note));
    this.card = element("section", "card plot", heading, this.legend, this.area);
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.area);
  }

  listen() {
    this.area.addEventListener("pointermove", (event) => {
      const x = event.clientX - this.area.getBoundingClientRect().left;
      this.choose(this.nearest(x));
    });
    this.area.addEventListener("pointerleave", () => this.choose(null));
    this.area.addEventListener("blur", () => this.choose(null));
    this.area.addEventListener("keydown", (event) => {
      const last = this.samples.length - 1;
      const now = this.chosen === null ? last : this.chosen;
      const next = {ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last}[event.key];
      if (next === undefined || last < 0) return;
      event.preventDefault();
      this.choose(Math.min(Math.max(next, 0), last));
    });
  }

  set(samples) {
    const chosen = this.chosen === null ? null : this.samples[this.chosen];
    this.samples = samples;
    const still = samples.indexOf(chosen);
    this.chosen = still >= 0 ? still : null;
    const last = samples[samples.length - 1];
    this.series.forEach(({of}, i) => setText(this.values[i], this.tell(last && of(last))));
    this.draw();
  }

  tell(value) {
    return value === null || value === undefined ? "–" : this.text(value);
  }

  x(sample) {
    const age = (this.samples[this.samples.length - 1].time - sample.time) / 1000;
    return MARGIN.left + (this.width - MARGIN.left - MARGIN.right) * (1 - age / this.span);
  }

  y(value) {
    const height = PLOT_HEIGHT - MARGIN.top - MARGIN.bottom;
    return MARGIN.top + height * (1 - value / this.top);
  }

  nearest(x) {
    if (this.samples.length === 0) return null;
    let best = 0;
    this.samples.forEach((sample, i) => {
      if (Math.abs(this.x(sample) - x) < Math.abs(this.x(this.samples[best]) - x)) best = i;
    });
    return best;
  }

  draw() {
    this.width = this.area.clientWidth;
    if (this.width === 0) return;
    const [first] = this.samples;
    const age = first ? (this.samples[this.samples.length - 1].time - first.time) / 1000 : 0;
    this.span = SPANS.find((span) => age <= span) || PLOT_SECONDS;
    const values = this.samples.flatMap((s) => this.series.map(({of}) => of(s) || 0));
    const ticks = axisTicks(Math.max(this.least, this.most, ...values));
    this.top = ticks[ticks.length - 1];
    this.svg.setAttribute("width", this.width);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${PLOT_HEIGHT}`);
    this.svg.replaceChildren();
    this.drawAxes(ticks);
    // The first one last, above the others.
    for (let i = this.series.length - 1; i >= 0; --i) this.drawSeries(this.series[i], i);
    this.drawChosen();
  }

  drawAxes(ticks) {
    const right = this.width - MARGIN.right;
    for (const tick of ticks) {
      const y = this.y(tick);
      this.svg.append(svgElement("line", {class: "grid", x1: MARGIN.left, x2: right, y1: y, y2: y}));
      this.write(MARGIN.left - 6, y + 4, "end", this.text(tick));
    }
    const isShort = this.span < PLOT_SECONDS;
    const bottom = PLOT_HEIGHT - MARGIN.bottom;
    for (let age = 0; age <= this.span; age += isShort ? this.span / 4 : 60) {
      const x = right - (right - MARGIN.left) * age / this.span;
      this.svg.append(svgElement("line", {class: "tick", x1: x, x2: x, y1: bottom, y2: bottom + 4}));
      const text = age === 0 ? "now" : isShort ? `−${age} s` : `−${age / 60} min`;
      this.write(x, PLOT_HEIGHT - 4, age === 0 ? "end" : "middle", text);
    }
  }

  write(x, y, anchor, text) {
    const node = svgElement("text", {x, y, "text-anchor": anchor});
    node.textContent = text;
    this.svg.append(node);
  }

  // Lines between samples that follow each other, a dot for one without neighbours.
  drawSeries({of}, index) {
    let path = "";
    let before = null;
    let points = [];
    const endRun = () => {
      if (points.length === 1) {
        const [x, y] = points[0];
        this.svg.append(svgElement("circle", {class: `series-${index}`, cx: x, cy: y, r: 1.5}));
      } else if (index === 0 && points.length > 1) {
        const bottom = this.y(0);
        const area = `M${points[0][0]},${bottom}L${points.join("L")}L${points[points.length - 1][0]},${bottom}Z`;
        this.svg.append(svgElement("path", {class: "fill", d: area}));
      }
      if (points.length > 1) path += `M${points.join("L")}`;
      points = [];
    };
    for (const sample of this.samples) {
      const value = of(sample);
      if (value === null || (before && sample.time - before.time > 4 * POLL_MS)) endRun();
      if (value !== null) points.push([this.x(sample).toFixed(1), this.y(value).toFixed(1)]);
      before = sample;
    }
    endRun();
    this.svg.append(svgElement("path", {class: `line series-${index}`, d: path}));
  }

  choose(index) {
    if (index === this.chosen) return;
    this.chosen = index;
    this.draw();
  }

  drawChosen() {
    const last = this.samples.length - 1;
    const told = this.chosen === null ? last : this.chosen;
    if (told >= 0) {
      const sample = this.samples[told];
      const all = this.series.map(({name, of}) => `${name} ${this.tell(of(sample))}`).join(", ");
      this.area.setAttribute("aria-valuemax", last);
      this.area.setAttribute("aria-valuenow", told);
      this.area.setAttribute("aria-valuetext", `${format.clock(sample.time)}: ${all}`);
    }
    this.tip.hidden = this.chosen === null;
    if (this.chosen === null) return;
    const sample = this.samples[this.chosen];
    const x = this.x(sample);
    this.svg.append(svgElement("line", {class: "cross", x1: x, x2: x, y1: MARGIN.top,
      y2: PLOT_HEIGHT - MARGIN.bottom}));
    this.tip.replaceChildren(element("span", "quiet", format.clock(sample.time)));
    this.series.forEach(({name, of}, i) => {
      const value = of(sample);
      this.tip.append(element("span", "", element("i", `swatch series-${i}`), `${name} `,
        element("b", "", this.tell(value))));
      if (value !== null) {
        this.svg.append(svgElement("circle", {class: `series-${i}`, cx: x, cy: this.y(value), r: 3}));
      }
    });
    // On the side that has more room.
    const isLeft = x > this.width / 2;
    this.tip.style.left = isLeft ? "auto" : `${x + 12}px`;
    this.tip.style.right = isLeft ? `${this.width - x + 12}px` : "auto";
  }
}

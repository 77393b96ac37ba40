// What a plot tells of the point that is nearest, and zoom along x. The pictures are there without it.
"use strict";

const THREE = new Intl.NumberFormat("en-US", {maximumSignificantDigits: 3});
const WHOLE = new Intl.NumberFormat("en-US", {maximumFractionDigits: 0});
const numberText = (value) => (Math.abs(value) >= 100 ? WHOLE : THREE).format(value);

// Text goes in as text, never as markup.
function element(name, className, ...children) {
  const node = document.createElement(name);
  node.className = className;
  node.append(...children);
  return node;
}

const nines = (percent) => -Math.log10(1 - Math.min(percent, 99.9999999) / 100);
const SCALES = {linear: (value) => value, log: (value) => Math.log(Math.max(value, 1e-12)), nines};

class Axis {
  constructor({label, scale, min, max}) {
    Object.assign(this, {label, scale, min, max});
    this.to = SCALES[scale];
  }

  place(value) {
    const place = (this.to(value) - this.to(this.min)) / (this.to(this.max) - this.to(this.min));
    return Math.min(Math.max(place, 0), 1);
  }

  // Round values between two places of a linear axis.
  ticks(from, to) {
    const at = (place) => this.min + place * (this.max - this.min);
    const span = at(to) - at(from);
    const power = 10 ** Math.floor(Math.log10(span / 6));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size * 6 >= span * (1 - 1e-9));
    const ticks = [];
    for (let i = Math.ceil(at(from) / step - 1e-9); i * step <= at(to) * (1 + 1e-9); ++i) ticks.push(i * step);
    return ticks;
  }
}

class Plot {
  constructor(figure) {
    const {x, y, series} = JSON.parse(figure.dataset.plot);
    this.figure = figure;
    this.x = new Axis(x);
    this.y = new Axis(y);
    this.area = figure.querySelector(".area");
    this.sheet = figure.querySelector(".sheet");
    this.xs = figure.querySelector(".xs");
    this.bars = [...figure.querySelectorAll("rect")];
    this.isList = figure.querySelector(".list") !== null;
    for (const title of figure.querySelectorAll("rect title")) title.remove();  // the tip tells it
    this.series = series.map((one) => ({...one, places: one.points.map(([px, py]) => [this.x.place(px), 1 - this.y.place(py)])}));
    this.stops = this.bars.length > 0 ? this.bars.map((_, i) => i) : this.findStops();
    this.stop = -1;
    this.from = 0;
    this.to = 1;
    this.line = element("div", "chosen");
    this.brush = element("div", "brush");
    this.tip = element("div", "tip");
    this.line.hidden = this.brush.hidden = this.tip.hidden = true;
    this.area.append(this.line, this.brush);
    figure.append(this.tip);
    this.area.tabIndex = 0;
    this.area.setAttribute("role", "slider");
    for (const [name, value] of [["min", 0], ["max", Math.max(this.stops.length - 1, 0)], ["now", 0], ["text", "nothing is chosen"]]) {
      this.area.setAttribute(`aria-value${name}`, value);
    }
    if (this.x.scale === "linear") this.addZoom();
    this.listen();
  }

  // Where the arrow keys stop: every x that a line has, or every dot from left to right.
  findStops() {
    const places = this.series.flatMap(({places: all}) => all.map(([px]) => px));
    return [...new Set(places)].sort((a, b) => a - b);
  }

  addZoom() {
    const button = (text, name, action) => {
      const node = element("button", "", text);
      node.type = "button";
      node.setAttribute("aria-label", `${name}: ${this.figure.querySelector("h3").textContent}`);
      node.addEventListener("click", action);
      return node;
    };
    this.reset = button("All", "see all", () => this.show(0, 1));
    this.reset.hidden = true;
    const zooms = element("div", "zooms", this.reset, button("−", "zoom out", () => this.zoom(2)),
      button("+", "zoom in", () => this.zoom(0.5)));
    this.figure.append(zooms);
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
        this.brush.style.left = `${100 * left}%`;
        this.brush.style.width = `${100 * (right - left)}%`;
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
    this.area.addEventListener("keydown", (event) => {
      const last = this.stops.length - 1;
      const [before, after] = [this.stop - 1, this.stop + 1];
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
    });
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
      const isBeside = Math.abs(top.baseVal.value + height.baseVal.value / 2 - 1000 * y) < 0.66 * height.baseVal.value;
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

  show(from, to) {
    if (!this.reset) return;
    from = Math.max(from, 0);
    to = Math.min(to, 1);
    if (to - from < 1e-3) return;
    Object.assign(this, {from, to});
    this.sheet.style.width = `${100 / (to - from)}%`;
    this.sheet.style.left = `${-100 * from / (to - from)}%`;
    const ticks = this.x.ticks(from, to);
    this.xs.replaceChildren(...ticks.map((tick) => {
      const node = element("span", "", Number(tick.toPrecision(6)).toLocaleString("en-US", {maximumSignificantDigits: 6}));
      node.style.left = `${100 * (this.x.place(tick) - from) / (to - from)}%`;
      return node;
    }));
    this.reset.hidden = from === 0 && to === 1;
    if (this.stop >= 0) this.choose(this.stop);
  }

  placeOf(stop) {
    if (this.bars.length === 0) return this.stops[stop];
    const {x, width} = this.bars[stop];
    return (x.baseVal.value + width.baseVal.value / 2) / 1000;
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
      const swatch = element("i", "swatch");
      swatch.style.setProperty("--shade", one.colour);
      const own = one.texts[i] ? ` ${one.texts[i]}` : one.line ? "" : ` at ${numberText(px)}`;
      rows.push(element("span", "", swatch, `${one.name}${own}: `, element("b", "", numberText(py)), ` ${this.y.label}`));
    }
    if (told === null) return [];
    const unit = this.x.scale === "nines" ? `p${Number(told.toPrecision(4))}` : `${numberText(told)} ${this.x.label}`;
    return [element("span", "quiet", unit), ...rows];
  }

  choose(stop, at) {
    this.stop = stop;
    const isTold = stop >= 0;
    const rows = !isTold ? [] : this.bars.length > 0 ? [element("span", "", this.bars[stop].dataset.text)] : this.tell(this.placeOf(stop), at);
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
    this.line.style.left = `${100 * place}%`;
    this.line.hidden = this.bars.length > 0;
    this.tip.replaceChildren(...rows);
    this.area.setAttribute("aria-valuenow", stop);
    this.area.setAttribute("aria-valuetext", rows.map((row) => row.textContent).join(", "));
    const box = this.area.getBoundingClientRect();
    const own = this.figure.getBoundingClientRect();
    const x = box.left - own.left + (at ? at[0] : place) * box.width;
    const isLeft = x > own.width / 2;
    this.tip.style.left = isLeft ? "auto" : `${x + 14}px`;
    this.tip.style.right = isLeft ? `${own.width - x + 14}px` : "auto";
    const {y, height} = this.isList ? this.bars[stop] : {};  // below it: the list may be long
    const below = this.isList ? (y.baseVal.value + height.baseVal.value) / 1000 * box.height + 4 : 6;
    this.tip.style.top = `${box.top - own.top + below}px`;
  }
}

for (const figure of document.querySelectorAll(".plot")) new Plot(figure);

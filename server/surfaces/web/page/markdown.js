// Markdown of an answer that is still coming: blocks that are whole stay as they are, and only what the
// last line may still change is made anew, so that nothing flickers and no answer costs more than its
// length. It becomes elements and text nodes alone: whatever it says, it is no markup.
const MAX_NESTED = 12;      // quotes and lists within each other
const MAX_LINE = 4000;      // of a longer one the parts are looked at one by one
const MAX_PARAGRAPH = 8000;
const TAB = "    ";

const RULE = /^(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const HEADING = /^(#{1,6})(?:[ \t]|$)/;
const FENCE = /^(?:(`{3,})([^`]*)|(~{3,})(.*))$/;
const MARKER = /^(?:[-*+]|(\d{1,9})[.)])(?= |$)/;
const TABLE_RULE = /^\|?[ \t]{0,9}:?-+:?[ \t]{0,9}(?:\|[ \t]{0,9}:?-+:?[ \t]{0,9})*\|?[ \t]*$/;
// What may yet become anything.
const UNDECIDED = /^(?:[-*+_=#`~|: \t]*|\d{1,9}[.)]?[ \t]*)$/;

function spacesAt(text, at) {
  let end = at;
  while (text[end] === " ") ++end;
  return end - at;
}

// Tabs before the text, and after a list's mark, as spaces.
function expandTabs(source) {
  if (!source.includes("\t")) return source;
  const line = source.replace(/^(\s{0,40}(?:[-*+]|\d{1,9}[.)]))\t/, "$1 ");
  let text = "";
  for (let i = 0; i < line.length; ++i) {
    if (line[i] === "\t") text += TAB.slice(text.length % 4);
    else if (line[i] === " " || line[i] === ">") text += line[i];
    else return text + line.slice(i);
  }
  return text;
}

function tableCells(line) {
  const cells = [];
  let cell = "";
  const text = line.trim();
  for (let i = text[0] === "|" ? 1 : 0; i < text.length; ++i) {
    if (text[i] === "|") {
      cells.push(cell.trim());
      cell = "";
    } else if (text[i] === "\\" && text[i + 1] === "|") {
      cell += text[++i];
    } else {
      cell += text[i];
    }
  }
  if (cell.trim() !== "") cells.push(cell.trim());
  return cells;
}

class Markdown {
  constructor(root) {
    this.stack = [{kind: "root", node: root}];  // of blocks that hold others
    this.leaf = null;       // the last block with text of its own, while more may come to it
    this.rest = "";         // the last line, so far
    this.joins = false;     // what comes goes on with a line that was begun
    this.trial = null;      // what was shown for the rest, to be taken back
  }

  append(text) {
    this.takeBack();
    let rest = this.rest + text;
    let begin = 0;
    for (;;) {
      const end = rest.indexOf("\n", begin);
      if (end < 0 && rest.length - begin <= MAX_LINE) break;
      const isPart = end < 0 || end - begin > MAX_LINE;
      const stop = isPart ? begin + MAX_LINE : end;
      this.line(rest.slice(begin, stop), !isPart);
      begin = isPart ? stop : stop + 1;
    }
    this.rest = rest.slice(begin);
    this.tryRest();
    if (this.leaf && this.leaf.kind === "paragraph") this.paint(this.leaf, true);
  }

  // All has come.
  finish() {
    this.takeBack();
    if (this.rest !== "") this.line(this.rest, true);
    this.rest = "";
    this.closeTo(1);
  }

  // Shows the line that has begun, so that it can be taken back.
  tryRest() {
    if (this.rest === "") return;
    const isCode = this.leaf && this.leaf.kind === "fence" && !this.joins;
    if (!this.joins) {
      const text = this.rest.replace(/^[\s>]+/, "");
      if (isCode ? /^[`~]+$/.test(text) : UNDECIDED.test(text)) return;
      if (!isCode && text[0] === "|" && !(this.leaf && this.leaf.kind === "table")) return;
    }
    const {leaf, joins} = this;
    this.trial = {leaf, joins, copy: leaf && {...leaf}, stack: [...this.stack], changes: []};
    if (leaf && leaf.code) this.trial.length = leaf.code.length;
    this.line(this.rest, true);
  }

  takeBack() {
    const {trial} = this;
    if (!trial) return;
    this.trial = null;
    for (const {node, parent} of trial.changes.reverse()) {
      if (parent) parent.append(node);
      else node.remove();
    }
    this.stack = trial.stack;
    this.joins = trial.joins;
    this.leaf = trial.leaf;
    if (!this.leaf) return;
    Object.assign(this.leaf, trial.copy);
    if (this.leaf.code) this.leaf.code.deleteData(trial.length, this.leaf.code.length - trial.length);
  }

  put(parent, node) {
    parent.append(node);
    if (this.trial) this.trial.changes.push({node});
    return node;
  }

  replace(node) {
    if (this.trial) this.trial.changes.push({node, parent: node.parentNode});
    node.remove();
  }

  get box() {
    return this.stack[this.stack.length - 1].node;
  }

  // Ends the last block, and those that hold others but for the first `depth`.
  closeTo(depth) {
    if (this.leaf && this.leaf.kind === "paragraph") this.paint(this.leaf, false);
    this.leaf = null;
    this.stack.length = depth;
  }

  paint(leaf, isOpen) {
    let {text} = leaf;
    if (isOpen) {
      // The next line says whether this one is the head of a table.
      const last = text.slice(text.lastIndexOf("\n") + 1);
      if (last[0] === "|") text = text.slice(0, Math.max(0, text.length - last.length - 1));
    }
    const shown = `${isOpen}${text}`;
    if (leaf.paint.shown === shown) return;
    leaf.paint.shown = shown;
    leaf.node.replaceChildren(inlineNodes(text, isOpen));
  }

  // `isWhole`: it has an end.
  line(source, isWhole) {
    const joins = this.joins;
    this.joins = !isWhole;
    if (joins) {
      this.goOn(source);
      return;
    }
    const raw = source.endsWith("\r") ? source.slice(0, -1) : source;
    const text = expandTabs(raw);
    const place = this.findPlace(text);
    const {leaf} = this;
    if (leaf && leaf.kind === "fence" && place.depth === this.stack.length) {
      // Tabs of the code itself are kept.
      this.fenceLine(leaf, raw.slice(0, place.at).includes("\t") ? text.slice(place.at) : raw.slice(place.at));
      return;
    }
    while (this.openBox(text, place)) place.isNew = true;
    if (!place.isDone) this.lastBlock(text, place);
  }

  // A further part of a line that is too long to be looked at as one.
  goOn(text) {
    const {leaf} = this;
    if (leaf && leaf.code) {
      leaf.code.appendData(text);
    } else if (leaf && leaf.kind === "paragraph" && leaf.text.length < MAX_PARAGRAPH) {
      leaf.text += text;
    } else {
      this.startParagraph(this.stack.length, text);
    }
  }

  // Which of the open boxes the line goes on with, and where its own text begins.
  findPlace(text) {
    const inFence = this.leaf !== null && this.leaf.kind === "fence";
    let at = 0;
    let depth = 1;
    for (; depth < this.stack.length; ++depth) {
      const {kind, offset} = this.stack[depth];
      const indent = spacesAt(text, at);
      if (kind === "quote") {
        if (indent > 3 || text[at + indent] !== ">") break;
        at += indent + 1;
        if (text[at] === " ") ++at;
      } else if (indent >= offset || inFence || at + indent === text.length) {
        at += Math.min(indent, offset);
      } else {
        break;
      }
    }
    return {at, depth, isNew: false, isDone: false};
  }

  // Opens the block that begins at the line's place; false: there is none that holds others.
  openBox(text, place) {
    const indent = spacesAt(text, place.at);
    const rest = text.slice(place.at + indent);
    const isText = !place.isNew && this.leaf !== null && this.leaf.kind === "paragraph";
    if (rest === "" || indent > 3) return false;
    if (rest[0] === ">" && place.depth < MAX_NESTED) {
      this.closeTo(place.depth);
      this.stack.push({kind: "quote", node: this.put(this.box, element("blockquote"))});
      place.at += indent + (rest[1] === " " ? 2 : 1);
      ++place.depth;
      return true;
    }
    const heading = HEADING.exec(rest);
    const fence = FENCE.exec(rest);
    const isRule = RULE.test(rest);
    if (heading || fence || isRule) {
      this.closeTo(place.depth);
      place.isDone = true;
      if (isRule) this.put(this.box, element("hr"));
      else if (fence) this.startFence(fence, indent);
      else this.heading(heading[1].length, rest.slice(heading[1].length));
      return false;
    }
    const marker = MARKER.exec(rest);
    if (!marker || place.depth >= MAX_NESTED) return false;
    const content = rest.slice(marker[0].length);
    // "2019. That was a year" in the midst of text, and a lone dash, begin no list.
    const isWithin = isText && place.depth === this.stack.length;
    if (isWithin && (content.trim() === "" || (marker[1] && Number(marker[1]) !== 1))) return false;
    this.openItem(marker, content, indent, place);
    return true;
  }

  openItem(marker, content, indent, place) {
    const sibling = this.stack[place.depth];
    const kind = marker[0][marker[0].length - 1];
    this.closeTo(place.depth);
    let list = sibling && sibling.marker === kind ? sibling.list : null;
    if (!list) {
      list = element(marker[1] ? "ol" : "ul");
      if (marker[1] && Number(marker[1]) !== 1) list.start = Number(marker[1]);
      this.put(this.box, list);
    }
    const spaces = spacesAt(content, 0);
    const gap = content.trim() === "" || spaces > 4 ? 1 : spaces;
    const offset = indent + marker[0].length + gap;
    this.stack.push({kind: "item", node: this.put(list, element("li")), list, marker: kind, offset});
    place.at += offset;
    ++place.depth;
  }

  heading(level, text) {
    let title = text.trim();
    let end = title.length;
    while (title[end - 1] === "#") --end;
    if (end === 0 || title[end - 1] === " ") title = title.slice(0, end).trim();
    // The page has levels one to three itself.
    const node = element(`h${Math.min(6, level + 3)}`, `level-${Math.min(4, level)}`);
    node.append(inlineNodes(title, this.trial !== null));
    this.put(this.box, node);
  }

  codeBlock(label) {
    const code = document.createTextNode("");
    this.put(this.box, codeBox(label, code));
    return code;
  }

  startFence([, ticks, words, tildes, others], indent) {
    const label = (words ?? others).trim().split(/\s/, 1)[0].slice(0, 40);
    this.leaf = {kind: "fence", code: this.codeBlock(label), mark: ticks || tildes, indent, lines: 0};
  }

  fenceLine(leaf, text) {
    const indent = spacesAt(text, 0);
    const rest = text.slice(indent).trimEnd();
    if (indent <= 3 && rest.length >= leaf.mark.length && rest === leaf.mark[0].repeat(rest.length)) {
      this.leaf = null;
      return;
    }
    leaf.code.appendData((leaf.lines > 0 ? "\n" : "") + text.slice(Math.min(indent, leaf.indent)));
    ++leaf.lines;
  }

  indentedLine(text, place) {
    const {leaf} = this;
    const line = text.slice(place.at + 4);
    if (leaf && leaf.kind === "indented" && place.depth === this.stack.length && !place.isNew) {
      leaf.code.appendData("\n".repeat(leaf.blanks + 1) + line);
      leaf.blanks = 0;
      return;
    }
    this.closeTo(place.depth);
    this.leaf = {kind: "indented", code: this.codeBlock(""), blanks: 0};
    this.leaf.code.appendData(line);
  }

  // What holds no other block.
  lastBlock(text, place) {
    const {leaf} = this;
    const indent = spacesAt(text, place.at);
    const rest = text.slice(place.at).trimStart();
    const isHere = place.depth === this.stack.length && !place.isNew;
    if (rest === "") {
      if (isHere && leaf && leaf.kind === "indented") ++leaf.blanks;
      else if (!place.isNew) this.closeTo(place.depth);
      return;
    }
    const isText = leaf !== null && leaf.kind === "paragraph" && !place.isNew;
    if (indent > 3 && !isText) {
      this.indentedLine(text, place);
    } else if (isText && isHere && this.startTable(leaf, rest)) {
      return;
    } else if (isText && leaf.text.length < MAX_PARAGRAPH) {
      leaf.text += `\n${rest}`;
    } else if (isHere && leaf && leaf.kind === "table" && rest.includes("|")) {
      this.tableRow(leaf, rest);
    } else {
      this.startParagraph(place.depth, rest);
    }
  }

  startParagraph(depth, text) {
    this.closeTo(depth);
    const box = this.stack[depth - 1];
    let start = text;
    if (box.kind === "item" && !box.node.firstChild && /^\[[ xX]\] /.test(text)) {
      start = (text[1] === " " ? "☐ " : "☑ ") + text.slice(4);
    }
    this.leaf = {kind: "paragraph", node: this.put(this.box, element("p")), text: start, paint: {}};
  }

  // The paragraph's last line is the head of a table if this one says so.
  startTable(leaf, rule) {
    if (!rule.includes("|") || !TABLE_RULE.test(rule)) return false;
    const begin = leaf.text.lastIndexOf("\n") + 1;
    const head = tableCells(leaf.text.slice(begin));
    const sides = tableCells(rule).map((cell) => (!cell.endsWith(":") ? "" : cell[0] === ":" ? "center" : "right"));
    if (head.length !== sides.length) return false;
    if (begin > 0) {
      leaf.text = leaf.text.slice(0, begin - 1);
      this.closeTo(this.stack.length);
    } else {
      this.replace(leaf.node);
    }
    const table = {kind: "table", sides, body: element("tbody")};
    const row = element("tr", "", ...this.cells("th", head, sides));
    const region = element("div", "table", element("table", "", element("thead", "", row), table.body));
    region.tabIndex = 0;  // it may be wider than the page
    region.setAttribute("role", "region");
    region.setAttribute("aria-label", "Table");
    this.put(this.box, region);
    this.leaf = table;
    return true;
  }

  tableRow({sides, body}, line) {
    this.put(body, element("tr", "", ...this.cells("td", tableCells(line).slice(0, sides.length), sides)));
  }

  cells(name, texts, sides) {
    return texts.map((text, i) => element(name, sides[i], inlineNodes(text, this.trial !== null)));
  }
}

function codeBox(label, ...content) {
  const code = element("code", "", ...content);
  const block = element("pre", "", code);
  block.tabIndex = 0;
  return element("div", "code", element("div", "code-head", element("span", "", label),
    copyButton(() => code.textContent, code)), block);
}

// Markdown within a line: emphasis, code, links. Text that a model wrote becomes elements and text
// nodes, never markup, in time linear in its length whatever it is.
const MAX_EMPHASIS = 16;  // elements within each other; more is left as text

const WITHOUT_SPACES = /^[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Hang}]$/u;  // words need none around them
const URL_RUN = /https?:\/\/[^\s<>[\]\\"`\u3000-\u303f\uff00-\uffef]+/iy;
const SPECIAL = new Set([..."\\`*_~[]!<\nhH"].map((char) => char.charCodeAt(0)));
const TARGET = /\(\s{0,3}(?:<([^<>\n]*)>|([^\s()<>]*(?:\([^\s()]*\)[^\s()<>]*)*))(?:\s{1,3}(?:"[^"]*"|'[^']*'))?\s{0,3}\)/y;
const HALF_TARGET = /(?:\([^\s)]{0,500})?$/y;
const BREAK_TAG = /<br\s{0,3}\/?>/iy;
const URL_IN_BRACKETS = /<(https?:\/\/[^\s<>]*)>/iy;

// The address if a link may lead there, else null.
function linkTarget(text) {
  if (!/^https?:\/\//i.test(text)) return null;
  try {
    const {protocol, href} = new URL(text);
    return protocol === "https:" || protocol === "http:" ? href : null;
  } catch {
    return null;
  }
}

const kinds = new Map();  // of characters that were seen

// "space" (or the text's edge), "punctuation", "dense": of a script without spaces, or "letter".
function kindOf(char) {
  let kind = kinds.get(char);
  if (!kind) {
    kind = /^\s?$/.test(char) ? "space" : /^[\p{P}\p{S}]$/u.test(char) ? "punctuation"
      : WITHOUT_SPACES.test(char) ? "dense" : "letter";
    if (kinds.size < 5000) kinds.set(char, kind);
  }
  return kind;
}

function matchAt(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

// Of an address in running text: what ends the sentence or closes a bracket before it is not part of it.
function urlEnd(url) {
  let end = url.length;
  let depth = 0;
  for (const char of url) depth += char === "(" ? 1 : char === ")" ? -1 : 0;
  while (end > 0) {
    const last = url[end - 1];
    if (last === ")" && depth < 0) ++depth;
    else if (!/[.,;:!?'*_~]/.test(last)) break;
    --end;
  }
  return end;
}

class InlineParser {
  // `isOpen`: more of the text is to come, and what it has begun is shown as if it had ended.
  constructor(text, isOpen) {
    this.text = isOpen ? text.replace(/[*_~`]{1,3}$/, "") : text;
    this.isOpen = isOpen;
    this.tokens = [];     // {text} | {code} | {link} | {isBreak}; of runs of *, _, ~: {opens, closes, ...}
    this.brackets = [];   // those that are open
    this.firstLink = 0;   // brackets before this one are around a link, and so are none
    this.first = null;    // of the runs that may still open or close something
    this.last = null;
    this.at = 0;
  }

  parse() {
    while (this.at < this.text.length) this.step();
    if (this.isOpen && this.brackets.length > 0) this.hideBracket(this.brackets[this.brackets.length - 1]);
    this.pair(null);
    if (this.isOpen) this.openTheRest();
    return this.build();
  }

  addText(text) {
    const last = this.tokens[this.tokens.length - 1];
    if (last && last.text !== undefined && !last.isBracket) last.text += text;
    else this.tokens.push({text});
  }

  step() {
    let end = this.at;
    while (end < this.text.length && !SPECIAL.has(this.text.charCodeAt(end))) ++end;
    if (end > this.at) {
      this.addText(this.text.slice(this.at, end));
      this.at = end;
      return;
    }
    const char = this.text[this.at];
    const isTaken = char === "\\" ? this.escape()
      : char === "`" ? this.code()
      : char === "\n" ? this.lineBreak()
      : char === "<" ? this.angle()
      : char === "[" || char === "!" ? this.openBracket(char)
      : char === "]" ? this.closeBracket()
      : char === "h" || char === "H" ? this.url()
      : this.run(char);
    if (isTaken) return;
    this.addText(char);
    ++this.at;
  }

  escape() {
    const next = this.text[this.at + 1];
    if (next === undefined || !/[!-/:-@[-`{-~]/.test(next)) return false;
    this.addText(next);
    this.at += 2;
    return true;
  }

  lineBreak() {
    const last = this.tokens[this.tokens.length - 1];
    if (last && last.text !== undefined) last.text = last.text.trimEnd();
    this.tokens.push({isBreak: true});
    ++this.at;
    return true;
  }

  angle() {
    const tag = matchAt(BREAK_TAG, this.text, this.at);
    const url = tag ? null : matchAt(URL_IN_BRACKETS, this.text, this.at);
    const href = url && linkTarget(url[1]);
    if (!tag && !href) return false;
    this.tokens.push(tag ? {isBreak: true} : {link: href, label: url[1]});
    this.at += (tag || url)[0].length;
    return true;
  }

  url() {
    if (this.at > 0 && /[\p{L}\p{N}_]/u.test(this.text[this.at - 1])) return false;
    const run = matchAt(URL_RUN, this.text, this.at);
    if (!run) return false;
    const label = run[0].slice(0, urlEnd(run[0]));
    const href = linkTarget(label);
    if (!href) return false;
    this.tokens.push({link: href, label});
    this.at += label.length;
    return true;
  }

  // The place of the next run of exactly `length` backticks from `from` on, or -1.
  nextTicks(length, from) {
    if (!this.ticks) {
      this.ticks = new Map();  // from length to places, the last one first
      for (const run of [...this.text.matchAll(/`+/g)].reverse()) {
        const size = run[0].length;
        if (!this.ticks.has(size)) this.ticks.set(size, []);
        this.ticks.get(size).push(run.index);
      }
    }
    const places = this.ticks.get(length) || [];
    while (places.length > 0 && places[places.length - 1] < from) places.pop();
    return places.length > 0 ? places[places.length - 1] : -1;
  }

  code() {
    let begin = this.at;
    while (this.text[begin] === "`") ++begin;
    const length = begin - this.at;
    let end = this.nextTicks(length, begin);
    const isHalf = end < 0 && this.isOpen && length < 3;
    if (isHalf) end = this.text.length;
    if (end < 0) {
      this.addText(this.text.slice(this.at, begin));
      this.at = begin;
      return true;
    }
    let code = this.text.slice(begin, end).replaceAll("\n", " ");
    if (/^ .*\S.* $/.test(code)) code = code.slice(1, -1);
    this.tokens.push({code});
    this.at = isHalf ? end : end + length;
    return true;
  }

  openBracket(char) {
    if (char === "!" && this.text[this.at + 1] !== "[") return false;
    // A picture is a link here: nothing is loaded from elsewhere.
    const text = char === "!" ? "![" : "[";
    const token = {text, isBracket: true, isPicture: char === "!", at: this.at, before: this.last};
    this.tokens.push(token);
    this.brackets.push(token);
    this.at += text.length;
    return true;
  }

  closeBracket() {
    const open = this.brackets.pop();
    if (!open) return false;
    const isDead = this.brackets.length < this.firstLink;
    if (isDead) this.firstLink = this.brackets.length;
    const target = isDead ? null : matchAt(TARGET, this.text, this.at + 1);
    const href = target && linkTarget(target[1] ?? target[2]);
    if (href) {
      this.pair(open.before);
      this.forget(open.before);
      Object.assign(open, {text: "", tag: "a", href});
      this.tokens.push({closes: ["a"], text: "", isBracket: true});
      this.at += 1 + target[0].length;
      if (!open.isPicture) this.firstLink = this.brackets.length;
      return true;
    }
    if (!isDead && this.isOpen && !target && matchAt(HALF_TARGET, this.text, this.at + 1)) {
      this.hideBracket(open);
      if (open.text === "") {
        this.at = this.text.length;
        return true;
      }
    }
    return false;
  }

  // Of a link that has just begun; "a[i" has none.
  hideBracket(token) {
    if (kindOf(this.charBefore(token.at)) !== "letter") token.text = "";
  }

  charBefore(at) {
    if (at === 0) return "";
    const isPair = at > 1 && /[\udc00-\udfff]/.test(this.text[at - 1]);
    return this.text.slice(at - (isPair ? 2 : 1), at);
  }

  charAt(at) {
    const code = this.text.codePointAt(at);
    return code === undefined ? "" : String.fromCodePoint(code);
  }

  // A run of *, _ or ~, and what it may do, by CommonMark's rules.
  run(char) {
    if (char !== "*" && char !== "_" && char !== "~") return false;
    let end = this.at;
    while (this.text[end] === char) ++end;
    const count = end - this.at;
    const before = kindOf(this.charBefore(this.at));
    const after = kindOf(this.charAt(end));
    this.at = end;
    if (char === "~" && count !== 2) {
      this.addText(char.repeat(count));
      return true;
    }
    const isLeft = after !== "space" && (after !== "punctuation" || before !== "letter");
    const isRight = before !== "space" && (before !== "punctuation" || after !== "letter");
    const isWord = char === "_" && isLeft && isRight;
    const token = {char, count, length: count, opens: [], closes: [], begin: end - count, previous: this.last, next: null,
      canOpen: isLeft && (!isWord || before === "punctuation"),
      canClose: isRight && (!isWord || after === "punctuation")};
    this.tokens.push(token);
    if (this.last) this.last.next = token;
    else this.first = token;
    this.last = token;
    return true;
  }

  // Finds the pairs among the runs after `bottom`; null: among all.
  pair(bottom) {
    const searched = new Map();  // by kind of closer: up to where there is no opener for it
    let closer = bottom ? bottom.next : this.first;
    while (closer) {
      if (!closer.canClose || closer.count === 0) {
        closer = closer.next;
        continue;
      }
      const kind = `${closer.char}${closer.canOpen}${closer.length % 3}`;
      const end = searched.get(kind) ?? -1;
      let opener = closer.previous;
      while (opener && opener !== bottom && opener.begin >= end && !this.fits(opener, closer)) {
        opener = opener.previous;
      }
      if (opener && opener !== bottom && opener.begin >= end) {
        this.join(opener, closer);
      } else {
        searched.set(kind, closer.begin);
        closer = closer.next;
      }
    }
  }

  forget(bottom) {
    this.last = bottom;
    if (bottom) bottom.next = null;
    else this.first = null;
  }

  fits(opener, closer) {
    if (opener.char !== closer.char || !opener.canOpen || opener.count === 0) return false;
    if (closer.char === "~") return true;
    const isBoth = opener.canClose || closer.canOpen;
    return !isBoth || (opener.length + closer.length) % 3 !== 0
      || (opener.length % 3 === 0 && closer.length % 3 === 0);
  }

  join(opener, closer) {
    const size = opener.count >= 2 && closer.count >= 2 ? 2 : 1;
    const tag = closer.char === "~" ? "del" : size === 2 ? "strong" : "em";
    opener.opens.push(tag);
    closer.closes.push(tag);
    opener.count -= size;
    closer.count -= size;
    // What lies between has had its chance.
    opener.next = closer;
    closer.previous = opener;
    if (opener.count > 0) return;
    closer.previous = opener.previous;
    if (opener.previous) opener.previous.next = closer;
  }

  // Bold text that has begun is bold before its end has come.
  openTheRest() {
    for (let run = this.first; run; run = run.next) {
      if (run.char !== "*" || run.count < 2 || !run.canOpen) continue;
      run.opens.push("strong");
      run.count -= 2;
    }
  }

  build() {
    const root = document.createDocumentFragment();
    const open = [{node: root, inLink: false}];
    const top = () => open[open.length - 1];
    const begin = (tag, href) => {
      const {node, inLink} = top();
      if (tag === "a" ? inLink : open.length > MAX_EMPHASIS) {
        open.push(top());
        return;
      }
      const child = document.createElement(tag);
      if (href) setLink(child, href);
      node.append(child);
      open.push({node: child, inLink: inLink || tag === "a"});
    };
    let text = "";
    const flush = () => {
      if (text !== "") top().node.append(text);
      text = "";
    };
    for (const token of this.tokens) {
      if (token.closes && token.closes.length > 0) {
        flush();
        for (const _ of token.closes) open.pop();
      }
      if (token.char) text += token.char.repeat(token.count);
      else if (token.text !== undefined) text += token.text;
      if (token.text !== undefined && !token.tag || token.char && token.opens.length === 0) continue;
      flush();
      const {node, inLink} = top();
      if (token.tag) begin(token.tag, token.href);
      if (token.opens) for (const tag of [...token.opens].reverse()) begin(tag);
      if (token.isBreak) node.append(document.createElement("br"));
      if (token.code !== undefined) node.append(element("code", "", token.code));
      if (token.link) node.append(inLink ? token.label : setLink(element("a", "", token.label), token.link));
    }
    flush();
    return root;
  }
}

function setLink(node, href) {
  node.href = href;
  node.title = href;
  node.target = "_blank";
  node.rel = "noopener noreferrer";
  return node;
}

function inlineNodes(text, isOpen = false) {
  return new InlineParser(text, isOpen).parse();
}

// Conversations, kept in this browser: each under a name of its own in localStorage, so that several tabs
// can write at once. They are bounded: the oldest ones go.
const KEPT_PREFIX = "quire.conversation.";
const MAX_KEPT = 100;
const MAX_KEPT_CHARS = 2000000;  // browsers give a page about 5 million
const MAX_ONE_CHARS = 1000000;
const MAX_TITLE = 80;

function makeTitle(question) {
  const line = question.trim().split(/\s*\n/, 1)[0];
  return line.length <= MAX_TITLE ? line : line.slice(0, MAX_TITLE - 1).trimEnd() + "…";
}

function makeConversation() {
  const id = [...crypto.getRandomValues(new Uint32Array(3))].map((part) => part.toString(36)).join("");
  return {id, title: "", time: 0, turns: []};
}

// What a text of the storage holds, or null: another version, or anybody, may have written it.
function readConversation(id, text) {
  const isText = (value) => typeof value === "string";
  try {
    const {title, time, turns} = JSON.parse(text);
    if (!isText(title) || typeof time !== "number" || !Array.isArray(turns)) return null;
    const texts = (list, names) => (Array.isArray(list) ? list : [])
      .filter((one) => one && names.every((name) => isText(one[name])))
      .map((one) => Object.fromEntries(names.map((name) => [name, one[name]])));
    const sound = turns.filter((turn) => turn && isText(turn.question)).map((turn) => ({
      question: turn.question,
      results: texts(turn.results, ["id", "name", "content"]),
      content: isText(turn.content) ? turn.content : "",
      reasoning: isText(turn.reasoning) ? turn.reasoning : "",
      thinkingMs: Number(turn.thinkingMs) || 0,
      calls: texts(turn.calls, ["id", "name", "arguments"]),
      note: isText(turn.note) ? turn.note : "",
      error: isText(turn.error) ? turn.error : "",
    }));
    return {id, title, time, turns: sound};
  } catch {
    return null;
  }
}

class Conversations {
  // `onTrouble(sentence)`; empty: all is well.
  constructor(onTrouble) {
    this.onTrouble = onTrouble;
    this.read();
  }

  get storage() {
    return window.localStorage;  // throws where the browser keeps nothing
  }

  // What there is, without the turns.
  read() {
    this.kept = new Map();
    try {
      for (const name of Object.keys(this.storage)) {
        if (name.startsWith(KEPT_PREFIX)) this.note(name.slice(KEPT_PREFIX.length), this.storage.getItem(name));
      }
    } catch {
      // save() says so when there is something to keep.
    }
  }

  note(id, text) {
    const conversation = text === null ? null : readConversation(id, text);
    if (!conversation) {
      this.kept.delete(id);
      return;
    }
    const {title, time} = conversation;
    this.kept.set(id, {id, title, time, size: text.length});
  }

  // Of another tab.
  onStorage({key: name, newValue}) {
    if (name === null) this.read();
    else if (name.startsWith(KEPT_PREFIX)) this.note(name.slice(KEPT_PREFIX.length), newValue);
  }

  // The newest one first.
  list() {
    return [...this.kept.values()].sort((a, b) => b.time - a.time || (a.id < b.id ? -1 : 1));
  }

  load(id) {
    try {
      const text = this.storage.getItem(KEPT_PREFIX + id);
      return text === null ? null : readConversation(id, text);
    } catch {
      return null;
    }
  }

  save(conversation) {
    const {id, ...rest} = conversation;
    const text = JSON.stringify(rest);
    if (text.length > MAX_ONE_CHARS) {
      this.onTrouble("This conversation is too long to be kept here: it goes with its tab. Begin a new one.");
      return;
    }
    this.makeRoom(id, text.length);
    try {
      this.storage.setItem(KEPT_PREFIX + id, text);
      this.note(id, text);
      this.onTrouble("");
    } catch {
      this.onTrouble("This browser has no room for this conversation: it goes with its tab. "
        + "Delete others, or let this page store data.");
    }
  }

  makeRoom(id, size) {
    const others = this.list().filter((one) => one.id !== id);
    let chars = others.reduce((sum, one) => sum + one.size, size);
    while (others.length > 0 && (others.length >= MAX_KEPT || chars > MAX_KEPT_CHARS)) {
      const oldest = others.pop();
      chars -= oldest.size;
      this.remove(oldest.id);
    }
  }

  remove(id) {
    this.kept.delete(id);
    try {
      this.storage.removeItem(KEPT_PREFIX + id);
    } catch {
      // Then it was not there.
    }
  }

  removeAll() {
    for (const id of [...this.kept.keys()]) this.remove(id);
  }
}

// A turn of a conversation: what was asked and what came of it, as data that can be kept and as elements.
const ENDINGS = {stop: "", tool_calls: "", length: "cut at the token limit", abort: "ended by an administrator"};

// `results`: of the calls before it, [{id, name, content}], in the place of a question.
function makeTurnData(question, results) {
  return {question, results, content: "", reasoning: "", thinkingMs: 0, calls: [], note: "", error: ""};
}

// JSON of a call for people; what is no JSON stays as it is.
function readableArguments(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

class Turn {
  // `onAgain()`, `onEdit(question)`, `onResults(results)`.
  constructor(data, {onAgain, onEdit, onResults}) {
    this.data = data;
    this.onAgain = onAgain;
    this.onEdit = onEdit;
    this.onResults = onResults;
    this.question = element("div", "text", data.question);
    this.asked = element("article", "asked", element("h3", "unseen", "You"), this.question);
    this.edit = textButton("Edit", "plain act", () => this.startEdit());
    this.edit.hidden = data.results.length > 0;
    for (const {name, content} of data.results) {
      this.question.append(element("p", "", element("b", "", `${name}: `), content));
    }
    this.summary = element("summary", "");
    this.thoughts = element("div", "thoughts");
    this.reasoning = element("details", "reasoning", this.summary, this.thoughts);
    this.text = element("div", "text");
    this.calls = element("div", "calls");
    this.foot = element("div", "foot");
    this.reply = element("article", "reply", element("h3", "unseen", "Answer"), this.reasoning, this.text,
      this.calls, this.foot);
    this.node = element("div", "turn", element("div", "question", this.asked, this.edit), this.reply);
    this.reasoning.hidden = true;
    this.markdown = new Markdown(this.text);
    this.thoughtsMarkdown = new Markdown(this.thoughts);
    this.newText = "";
    this.newThoughts = "";
  }

  // One that was kept.
  static restore(data, actions) {
    const turn = new Turn(data, actions);
    turn.newText = data.content;
    turn.newThoughts = data.reasoning;
    turn.end();
    return turn;
  }

  get isAnswered() {
    return this.data.content !== "" || this.data.calls.length > 0;
  }

  start() {
    this.meter = {begin: performance.now(), first: 0, last: 0, firstTokens: 0, tokens: 0};
    this.reply.classList.add("open");
  }

  // A part of the answer has come; `tokens`: how many there are by now.
  add(delta, tokens) {
    const {meter, data} = this;
    const now = performance.now();
    if (meter.first === 0 && tokens > 0) {
      meter.first = now;
      meter.firstTokens = tokens;
    }
    if (tokens > meter.tokens) meter.last = now;
    meter.tokens = tokens;
    const thoughts = delta.reasoning ?? delta.reasoning_content ?? "";
    if (thoughts !== "") {
      meter.firstThought ??= now;
      data.thinkingMs = now - meter.firstThought;
      data.reasoning += thoughts;
      this.newThoughts += thoughts;
    }
    if (delta.content) {
      data.content += delta.content;
      this.newText += delta.content;
    }
    for (const part of delta.tool_calls || []) this.addCall(part);
    this.draw();
  }

  addCall({index = 0, id, function: named = {}}) {
    const {calls} = this.data;
    if (!Number.isInteger(index) || index < 0 || index > calls.length) return;
    if (index === calls.length) calls.push({id: "", name: "", arguments: ""});
    if (id) calls[index].id = id;
    calls[index].name += named.name || "";
    calls[index].arguments += named.arguments || "";
    this.hasNewCalls = true;
  }

  // Shows what has come, once in a frame of the screen and never most of the time.
  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame((begin) => {
      this.frame = null;
      if (begin < this.notBefore) {
        this.draw();
        return;
      }
      const before = performance.now();
      this.onDraw(() => this.show());
      const after = performance.now();
      this.notBefore = after + 3 * (after - before);
    });
  }

  show() {
    if (this.newThoughts !== "") {
      this.reasoning.hidden = false;
      this.thoughtsMarkdown.append(this.newThoughts);
      this.newThoughts = "";
    }
    if (!this.reasoning.hidden) this.showThinking();
    if (this.newText !== "") {
      this.markdown.append(this.newText);
      this.newText = "";
    }
    if (this.hasNewCalls) this.showCalls();
  }

  showThinking() {
    const isAtIt = this.reply.classList.contains("open") && !this.isAnswered;
    this.summary.classList.toggle("busy", isAtIt);
    const ms = this.data.thinkingMs;
    setText(this.summary, isAtIt ? "Thinking…" : `Thought for ${ms < 1000 ? "a moment" : format.ms(ms)}`);
  }

  showCalls() {
    this.hasNewCalls = false;
    this.calls.replaceChildren(...this.data.calls.map(({name, arguments: text}) => {
      const box = codeBox("", readableArguments(text));
      box.classList.add("call");
      box.querySelector("span").append("calls ", element("b", "", name || "…"));
      return box;
    }));
  }

  // All is there: what is said below the answer, and what can be done with it.
  end() {
    cancelAnimationFrame(this.frame);
    this.reply.classList.remove("open");
    this.hasNewCalls = this.data.calls.length > 0;
    this.show();
    this.markdown.finish();
    this.thoughtsMarkdown.finish();
    if (this.data.calls.length > 0) this.reply.insertBefore(this.resultsForm(), this.foot);
    if (this.data.note !== "") this.foot.append(element("span", "quiet", this.data.note));
    if (this.isAnswered) this.foot.append(copyButton(() => this.data.content || this.callsText(), this.text));
    if (this.data.error === "") {
      this.foot.append(textButton("Regenerate", "plain act again", () => this.onAgain()));
    } else {
      this.reply.append(element("p", "error", element("span", "", this.data.error),
        textButton("Try again", "plain", () => this.onAgain())));
    }
  }

  // What the tools said is typed in: the page runs none.
  resultsForm() {
    const areas = this.data.calls.map(({name}) => {
      const area = element("textarea");
      area.rows = 1;
      area.setAttribute("aria-label", `Result of ${name}`);
      area.placeholder = `Result of ${name}`;
      area.addEventListener("input", () => grow(area));
      return area;
    });
    const form = element("form", "results act", ...areas, element("button", "plain", "Send results"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.onResults(this.data.calls.map(({id, name}, i) => ({id, name, content: areas[i].value})));
    });
    return form;
  }

  callsText() {
    return this.data.calls.map(({name, arguments: text}) => `${name} ${text}`).join("\n");
  }

  // `ending`: why it ended, if there is something to say.
  finish(ending) {
    const {meter} = this;
    const parts = [];
    if (meter.tokens > 0) {
      parts.push(`${format.count(meter.tokens)} token${meter.tokens === 1 ? "" : "s"}`);
      parts.push(`first after ${format.ms(meter.first - meter.begin)}`);
      // After the first ones; a short answer may come all at once.
      const [tokens, ms] = meter.last > meter.first
        ? [meter.tokens - meter.firstTokens, meter.last - meter.first]
        : [meter.tokens, meter.last - meter.begin];
      parts.push(`${format.number(tokens / ms * 1000)} tokens/s`);
    }
    if (ending) parts.push(ending);
    this.data.note = parts.join(" · ");
    this.end();
  }

  fail({sentence, retryAfter}) {
    const wait = retryAfter === null ? "" : ` Come back in ${format.duration(retryAfter)}.`;
    this.data.error = (/[.!?]$/.test(sentence) ? sentence : `${sentence}.`) + wait;
    this.finish("");
  }

  startEdit() {
    const area = element("textarea");
    area.value = this.data.question;
    area.setAttribute("aria-label", "Your message");
    const done = () => {
      form.replaceWith(this.asked);
      this.edit.hidden = false;
    };
    const cancel = () => {
      done();
      this.edit.focus();
    };
    const form = element("form", "edit", area, element("p", "quiet", "What came after it goes."),
      textButton("Cancel", "plain", cancel), element("button", "main", "Send"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const question = area.value.trim();
      if (question === "" || !this.onEdit(question)) return;
      done();
    });
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        cancel();
      } else if (isSendKey(event)) {
        event.preventDefault();
        form.requestSubmit();
      }
    });
    area.addEventListener("input", () => grow(area));
    this.edit.hidden = true;
    this.asked.replaceWith(form);
    grow(area);
    area.focus();
  }
}

function isSendKey(event) {
  return event.key === "Enter" && !event.shiftKey && !event.isComposing;
}

// A text area is as high as its text.
function grow(area) {
  area.style.height = "auto";
  area.style.height = `${area.scrollHeight + 2}px`;
}

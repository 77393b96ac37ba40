// The chat: /v1/chat/completions as a stream. A turn is what was asked and what came of it.

// The numbers of the settings that are set, and not what the model's own are.
function readSettings() {
  const settings = {};
  for (const [name, id] of [["temperature", "temperature"], ["top_p", "top-p"],
    ["max_tokens", "max-tokens"], ["seed", "seed"]]) {
    if ($(id).value.trim() !== "") settings[name] = $(id).valueAsNumber;
  }
  return settings;
}

// Calls `onEvent` with the data of each event of a stream.
async function readEvents(body, onEvent) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith("data: ")) onEvent(line.slice("data: ".length));
    }
  }
}

async function copyText(text, node) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // browsers keep it from pages without TLS
    getSelection().selectAllChildren(node);
    document.execCommand("copy");
    getSelection().removeAllRanges();
  }
}

class Turn {
  constructor(question, retry) {
    this.question = question;
    this.answer = document.createTextNode("");
    this.tokens = 0;
    this.text = element("div", "text", this.answer);
    this.foot = element("div", "foot");
    this.reply = element("article", "reply", element("h3", "unseen", "Answer"), this.text, this.foot);
    this.node = element("div", "turn",
      element("article", "asked", element("h3", "unseen", "You"), element("div", "text", question)),
      this.reply);
    this.retry = retry;
    this.begin = performance.now();
  }

  get isAnswered() {
    return this.answer.length > 0;
  }

  add(text, tokens) {
    const now = performance.now();
    if (!this.first && tokens > 0) {
      this.first = now;
      this.firstTokens = tokens;
    }
    if (tokens > this.tokens) this.last = now;
    this.tokens = tokens;
    this.answer.appendData(text);
  }

  // What is said below the answer: tokens, times, how it ended.
  finish(ending) {
    this.reply.classList.remove("open");
    const parts = [];
    if (this.tokens > 0) {
      parts.push(`${format.count(this.tokens)} token${this.tokens === 1 ? "" : "s"}`);
      parts.push(`first after ${format.ms(this.first - this.begin)}`);
      // After the first ones; a short answer may come all at once.
      const [tokens, ms] = this.last > this.first
        ? [this.tokens - this.firstTokens, this.last - this.first]
        : [this.tokens, this.last - this.begin];
      parts.push(`${format.number(tokens / ms * 1000)} tokens/s`);
    }
    if (ending) parts.push(ending);
    if (parts.length > 0) this.foot.append(element("span", "quiet", parts.join(" · ")));
    if (!this.isAnswered) return;
    const copy = element("button", "plain", "Copy");
    copy.type = "button";
    copy.addEventListener("click", async () => {
      await copyText(this.answer.data, this.text);
      setText(copy, "Copied");
      setTimeout(() => setText(copy, "Copy"), 1500);
    });
    this.foot.append(copy);
  }

  fail({sentence, retryAfter}) {
    this.finish("");
    const wait = retryAfter === null ? "" : ` Come back in ${format.duration(retryAfter)}.`;
    const again = element("button", "plain", "Try again");
    again.type = "button";
    again.addEventListener("click", () => this.retry());
    this.reply.append(element("p", "error", element("span", "", `${sentence}.${wait}`), again));
  }
}

class Chat {
  constructor(onUnknownKey) {
    this.onUnknownKey = onUnknownKey;
    this.turns = [];
    this.abort = null;  // of the answer that is under way
    $("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    $("prompt").addEventListener("input", () => this.grow());
    $("prompt").addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.stop();
    });
    $("stop").addEventListener("click", () => this.stop());
    $("clear").addEventListener("click", () => this.clear());
  }

  grow() {
    $("prompt").style.height = "auto";
    $("prompt").style.height = `${$("prompt").scrollHeight + 2}px`;
  }

  // Closing the connection is what tells the server.
  stop() {
    if (this.abort) this.abort.abort();
  }

  clear() {
    this.stop();
    for (const {node} of this.turns) node.remove();
    this.turns = [];
    $("welcome").hidden = false;
    $("clear").disabled = true;
    $("prompt").focus();
  }

  send() {
    const question = $("prompt").value.trim();
    if (question === "" || this.abort || !this.areSettingsValid()) return;
    $("prompt").value = "";
    this.grow();
    this.ask(question);
  }

  areSettingsValid() {
    const wrong = document.querySelector(".settings :invalid");
    if (!wrong) return true;
    wrong.closest("details").open = true;
    wrong.reportValidity();
    return false;
  }

  ask(question) {
    const turn = new Turn(question, () => {
      if (this.abort) return;
      turn.node.remove();
      this.turns.splice(this.turns.indexOf(turn), 1);
      this.ask(question);
    });
    const request = this.makeRequest(question);
    this.turns.push(turn);
    $("welcome").hidden = true;
    $("clear").disabled = false;
    $("messages").append(turn.node);
    $("messages").scrollTop = $("messages").scrollHeight;
    this.run(turn, request);
  }

  // A question that got no answer is not part of the conversation.
  makeRequest(question) {
    const messages = this.turns.filter(({isAnswered}) => isAnswered).flatMap((turn) => [
      {role: "user", content: turn.question}, {role: "assistant", content: turn.answer.data}]);
    if ($("system").value.trim() !== "") messages.unshift({role: "system", content: $("system").value});
    messages.push({role: "user", content: question});
    return {model: this.model, messages, stream: true,
      stream_options: {include_usage: true, continuous_usage_stats: true}, ...readSettings()};
  }

  async run(turn, request) {
    const abort = new AbortController();
    this.setBusy(abort, turn);
    try {
      const answer = await call("/v1/chat/completions", {method: "POST", signal: abort.signal,
        headers: {"content-type": "application/json"}, body: JSON.stringify(request)});
      if (answer.status === 401) this.onUnknownKey();
      if (!answer.ok) throw await readError(answer);
      await this.readAnswer(turn, answer);
    } catch (error) {
      if (abort.signal.aborted) {
        turn.finish("stopped");
      } else if (error.sentence) {
        turn.fail(error);
      } else {
        turn.fail({sentence: "The connection broke", retryAfter: null});
      }
    }
    this.setBusy(null, turn);
  }

  async readAnswer(turn, answer) {
    let ending = null;
    let failure = null;
    await readEvents(answer.body, (data) => {
      if (data === "[DONE]") return;
      const event = JSON.parse(data);
      if (event.error) {
        failure = {sentence: event.error.message, retryAfter: null};
        return;
      }
      const [choice] = event.choices;
      if (choice && choice.finish_reason) ending = choice.finish_reason;
      const text = choice && choice.delta.content || "";
      this.keepInView(() => turn.add(text, event.usage ? event.usage.completion_tokens : turn.tokens));
    });
    if (failure) throw failure;
    if (ending === null) throw new Error("the stream has no end");
    turn.finish({stop: "", length: "cut at the token limit", abort: "ended by an administrator"}[ending]
      ?? ending);
  }

  // Follows the answer unless its reader has scrolled away from its end.
  keepInView(change) {
    const box = $("messages");
    const follows = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    change();
    if (follows) box.scrollTop = box.scrollHeight;
  }

  setBusy(abort, turn) {
    this.abort = abort;
    const busy = abort !== null;
    const hadFocus = document.activeElement === $("stop") || document.activeElement === $("send");
    turn.reply.classList.toggle("open", busy);
    // Screen readers then read the answer once, when it is whole.
    $("messages").setAttribute("aria-busy", busy);
    $("send").hidden = busy;
    $("stop").hidden = !busy;
    if (hadFocus) (busy ? $("stop") : $("prompt")).focus();
    if (!busy) this.keepInView(() => {});
  }
}

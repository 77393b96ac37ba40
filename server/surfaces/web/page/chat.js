// The chat: the conversation that is open, and the answer that is under way.
const CURRENT_NAME = "quire.current";  // the conversation of this tab

function askedMessages({question, results}) {
  if (results.length === 0) return [{role: "user", content: question}];
  return results.map(({id, content}) => ({role: "tool", tool_call_id: id, content}));
}

function answerMessage({content, calls}) {
  if (calls.length === 0) return {role: "assistant", content};
  return {role: "assistant", content, tool_calls: calls.map(({id, name, arguments: text}) => (
    {id, type: "function", function: {name, arguments: text}}))};
}

class Chat {
  constructor(onUnknownKey) {
    this.onUnknownKey = onUnknownKey;
    this.settings = new Settings();
    this.conversations = new Conversations((sentence) => {
      setText($("chat-notice"), sentence);
      $("chat-notice").hidden = sentence === "";
    });
    this.sidebar = new Sidebar(this.conversations, {
      onOpen: (id) => this.open(this.conversations.load(id)),
      onDelete: (id) => this.delete(id),
      onDeleteAll: () => this.deleteAll(),
    });
    this.abort = null;  // of the answer that is under way
    this.open(this.conversations.load(sessionStorage.getItem(CURRENT_NAME)));
    $("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    $("prompt").addEventListener("input", () => grow($("prompt")));
    $("prompt").addEventListener("keydown", (event) => {
      if (!isSendKey(event)) return;
      event.preventDefault();
      this.send();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      this.stop();
      this.sidebar.toggle(false);
    });
    $("stop").addEventListener("click", () => this.stop());
    $("new-chat").addEventListener("click", () => {
      this.sidebar.toggle(false);
      this.open(null);
      $("prompt").focus();
    });
    window.addEventListener("pagehide", () => {
      if (!this.abort) return;
      this.turns[this.turns.length - 1].data.note = "stopped";
      this.save(this.conversation);
    });
  }

  // null: a new one.
  open(conversation) {
    this.stop();
    this.conversation = conversation || makeConversation();
    this.turns = this.conversation.turns.map((data) => {
      const turn = Turn.restore(data, this.actions(() => turn));
      return turn;
    });
    $("messages").replaceChildren($("welcome"), ...this.turns.map(({node}) => node));
    $("messages").scrollTop = $("messages").scrollHeight;
    this.showPlace();
  }

  showPlace() {
    const {id, title, turns} = this.conversation;
    try {
      if (turns.length > 0) sessionStorage.setItem(CURRENT_NAME, id);
      else sessionStorage.removeItem(CURRENT_NAME);
    } catch {
      // A reload begins a new one.
    }
    $("welcome").hidden = turns.length > 0;
    setText($("chat-title"), title || "New chat");
    this.sidebar.show(id);
  }

  delete(id) {
    if (id === this.conversation.id) this.open(null);
    this.conversations.remove(id);
    this.sidebar.show(this.conversation.id);
  }

  deleteAll() {
    this.open(null);
    this.conversations.removeAll();
    this.showPlace();
  }

  // One that was deleted meanwhile, with its answer under way, stays so.
  save(conversation) {
    if (conversation !== this.conversation && !this.conversations.kept.has(conversation.id)) return;
    if (conversation.turns.length === 0) return;
    conversation.title = makeTitle(conversation.turns[0].question);
    conversation.time = Date.now();
    this.conversations.save(conversation);
  }

  // Closing the connection is what tells the server.
  stop() {
    if (this.abort) this.abort.abort();
  }

  send() {
    const question = $("prompt").value.trim();
    if (question === "" || this.abort || !this.settings.isValid()) return;
    $("prompt").value = "";
    grow($("prompt"));
    this.ask(question, []);
  }

  actions(turn) {
    return {
      onAgain: () => this.askFrom(turn(), turn().data.question, turn().data.results),
      onEdit: (question) => this.askFrom(turn(), question, []),
      onResults: (results) => {
        if (!this.abort && this.settings.isValid()) this.ask("", results);
      },
    };
  }

  // Asks in the place of `turn`, with which those after it go.
  askFrom(turn, question, results) {
    if (this.abort || !this.settings.isValid()) return false;
    const index = this.turns.indexOf(turn);
    for (const {node} of this.turns.splice(index)) node.remove();
    this.conversation.turns.length = index;
    this.ask(question, results);
    return true;
  }

  ask(question, results) {
    const data = makeTurnData(question, results);
    const request = this.makeRequest(data);
    const turn = new Turn(data, this.actions(() => turn));
    turn.onDraw = (draw) => this.keepInView(draw);
    this.turns.push(turn);
    this.conversation.turns.push(turn.data);
    $("messages").append(turn.node);
    $("messages").scrollTop = $("messages").scrollHeight;
    this.save(this.conversation);
    this.showPlace();
    this.run(this.conversation, turn, request);
  }

  // A question that got no answer is not part of the conversation.
  makeRequest(asked) {
    const messages = this.turns.filter(({isAnswered}) => isAnswered)
      .flatMap(({data}) => [...askedMessages(data), answerMessage(data)]);
    if (this.settings.system.trim() !== "") messages.unshift({role: "system", content: this.settings.system});
    messages.push(...askedMessages(asked));
    return {model: this.model, messages, stream: true,
      stream_options: {include_usage: true, continuous_usage_stats: true}, ...this.settings.read()};
  }

  async run(conversation, turn, request) {
    const abort = new AbortController();
    turn.start();
    this.setBusy(abort);
    try {
      const answer = await call("/v1/chat/completions", {method: "POST", signal: abort.signal,
        headers: {"content-type": "application/json"}, body: JSON.stringify(request)});
      if (answer.status === 401) this.onUnknownKey();
      if (!answer.ok) throw await readError(answer);
      const ending = await readCompletion(answer, (delta, tokens) => turn.add(delta, tokens));
      turn.finish(ENDINGS[ending] ?? ending);
    } catch (error) {
      if (abort.signal.aborted) {
        turn.finish("stopped");
      } else if (error.sentence) {
        turn.fail(error);
      } else {
        turn.fail({sentence: "The connection broke", retryAfter: null});
      }
    }
    this.save(conversation);
    this.sidebar.show(this.conversation.id);
    if (this.abort === abort) this.setBusy(null);
  }

  // Follows the answer unless its reader has scrolled away from its end.
  keepInView(change) {
    const box = $("messages");
    const follows = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    change();
    if (follows) box.scrollTop = box.scrollHeight;
  }

  setBusy(abort) {
    this.abort = abort;
    const busy = abort !== null;
    const hadFocus = document.activeElement === $("stop") || document.activeElement === $("send");
    // Screen readers then read the answer once, when it is whole.
    $("messages").setAttribute("aria-busy", busy);
    $("send").hidden = busy;
    $("stop").hidden = !busy;
    if (hadFocus) (busy ? $("stop") : $("prompt")).focus();
    if (!busy) this.keepInView(() => {});
  }
}

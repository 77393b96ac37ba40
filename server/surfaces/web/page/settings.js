// The settings of the chat: what a request says beside its messages. They stay in this browser.
const SETTINGS_NAME = "quire.settings";
const NUMBERS = [["temperature", "temperature"], ["top_p", "top-p"], ["top_k", "top-k"], ["min_p", "min-p"],
  ["max_tokens", "max-tokens"], ["seed", "seed"], ["presence_penalty", "presence-penalty"],
  ["frequency_penalty", "frequency-penalty"], ["repetition_penalty", "repetition-penalty"]];
const SETTING_IDS = [...NUMBERS.map(([, id]) => id), "stop-texts", "tool-list", "system"];

// Of a text that is no JSON list: nothing.
function readTools(text) {
  try {
    const tools = JSON.parse(text);
    return Array.isArray(tools) ? tools : undefined;
  } catch {
    return undefined;
  }
}

class Settings {
  constructor() {
    this.thinks = null;   // whether the model does unless it is told; null: it has no such switch
    this.thinking = null; // whether its user wants it to; null: as the model does
    this.restore();
    for (const id of SETTING_IDS) $(id).addEventListener("input", () => this.changed());
    $("reset").addEventListener("click", () => this.reset());
    $("thinking").addEventListener("click", () => {
      const wanted = !(this.thinking ?? this.thinks);
      this.thinking = wanted === this.thinks ? null : wanted;
      this.changed();
    });
    this.show();
  }

  restore() {
    try {
      const kept = JSON.parse(localStorage.getItem(SETTINGS_NAME)) || {};
      for (const id of SETTING_IDS) if (typeof kept[id] === "string") $(id).value = kept[id];
      if (typeof kept.thinking === "boolean") this.thinking = kept.thinking;
    } catch {
      // None are kept, or by another version.
    }
  }

  reset() {
    for (const id of SETTING_IDS) $(id).value = "";
    this.thinking = null;
    this.changed();
  }

  changed() {
    const kept = Object.fromEntries(SETTING_IDS.map((id) => [id, $(id).value]).filter(([, text]) => text !== ""));
    if (this.thinking !== null) kept.thinking = this.thinking;
    try {
      if (Object.keys(kept).length > 0) localStorage.setItem(SETTINGS_NAME, JSON.stringify(kept));
      else localStorage.removeItem(SETTINGS_NAME);
    } catch {
      // They count for this tab all the same.
    }
    this.show();
  }

  show() {
    const isList = $("tool-list").value.trim() === "" || readTools($("tool-list").value);
    $("tool-list").setCustomValidity(isList ? "" : "This is no JSON list.");
    const count = SETTING_IDS.filter((id) => $(id).value.trim() !== "").length;
    setText($("settings-count"), count === 0 ? "" : ` · ${count} set`);
    $("reset").disabled = count === 0 && this.thinking === null;
    $("thinking").hidden = this.thinks === null;
    $("thinking").setAttribute("aria-pressed", this.thinking ?? this.thinks ?? false);
  }

  isValid() {
    const wrong = document.querySelector(".settings :invalid");
    if (!wrong) return true;
    wrong.closest("details").open = true;
    wrong.reportValidity();
    return false;
  }

  // Those that are set; what is not is the model's.
  read() {
    const fields = {};
    for (const [name, id] of NUMBERS) {
      if ($(id).value.trim() !== "") fields[name] = $(id).valueAsNumber;
    }
    const stop = $("stop-texts").value.split("\n").filter((line) => line !== "")
      .map((line) => line.replaceAll("\\n", "\n"));
    if (stop.length > 0) fields.stop = stop;
    if ($("tool-list").value.trim() !== "") fields.tools = readTools($("tool-list").value);
    if (this.thinks !== null && this.thinking !== null) {
      fields.chat_template_kwargs = {enable_thinking: this.thinking};
    }
    return fields;
  }

  get system() {
    return $("system").value;
  }

  // A model can be told whether to think if that changes its prompt.
  async findThinking(model) {
    const prompt = async (kwargs) => {
      const answer = await call("/tokenize", {method: "POST", headers: {"content-type": "application/json"},
        body: JSON.stringify({model, messages: [{role: "user", content: "Hi"}], ...kwargs})});
      if (!answer.ok) throw await readError(answer);
      return String((await answer.json()).tokens);
    };
    const told = (value) => prompt({chat_template_kwargs: {enable_thinking: value}});
    try {
      const [on, off] = await Promise.all([told(true), told(false)]);
      this.thinks = on === off ? null : await prompt({}) !== off;
    } catch {
      this.thinks = null;  // no tokenizer, or no chat template
    }
    this.show();
  }
}

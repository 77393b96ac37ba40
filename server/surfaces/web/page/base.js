// The other files of this page share these: quantities for people, calls with the key, buttons that ask or copy.
const $ = (id) => document.getElementById(id);

const format = {
  count: (value) => GROUPED.format(value),
  number: numberText,
  percent: (value) => `${numberText(value)}%`,
  ms: (value) => (value >= 1000 ? `${numberText(value / 1000)} s` : `${numberText(value)} ms`),
  bytes(value) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (value >= 1000 && unit + 1 < units.length) {
      value /= 1024;
      ++unit;
    }
    return THREE_DIGITS.format(value) + " " + units[unit];
  },
  parameters(value) {
    if (value >= 1e9) return THREE_DIGITS.format(value / 1e9) + " B";
    return THREE_DIGITS.format(value / 1e6) + " M";
  },
  duration(seconds) {
    const whole = Math.max(0, Math.floor(seconds));
    const parts = [[Math.floor(whole / 86400), "d"], [Math.floor(whole / 3600) % 24, "h"],
      [Math.floor(whole / 60) % 60, "min"], [whole % 60, "s"]];
    const first = parts.findIndex(([number]) => number > 0);
    if (first < 0) return "0 s";
    return parts.slice(first, first + 2).map(([number, unit]) => `${number} ${unit}`).join(" ");
  },
  clock: (milliseconds) => new Date(milliseconds).toLocaleTimeString([], {hour12: false}),
};

const KEY_NAME = "quire.key";
const key = {
  get: () => sessionStorage.getItem(KEY_NAME),
  set: (value) => sessionStorage.setItem(KEY_NAME, value),
  forget: () => sessionStorage.removeItem(KEY_NAME),
};

function call(path, options = {}) {
  const headers = {...options.headers};
  if (key.get()) headers.authorization = `Bearer ${key.get()}`;
  return fetch(path, {cache: "no-store", credentials: "omit", ...options, headers});
}

// The sentence of an error, and the seconds after which to come back, or null.
async function readError(answer) {
  let sentence = `the server answered ${answer.status}`;
  try {
    sentence = (await answer.json()).error.message || sentence;
  } catch {
    // No JSON of ours: a proxy may have answered.
  }
  const seconds = Number.parseInt(answer.headers.get("retry-after"), 10);
  return {sentence, retryAfter: Number.isNaN(seconds) ? null : seconds};
}

async function copyText(text, node) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // browsers keep it from pages without TLS
    const area = element("textarea", "unseen");
    area.value = text;
    node.parentNode.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

// A button that asks once more before it acts, unless `question()` is empty.
function askFirst(button, question, act) {
  const text = button.textContent;
  let asks = false;
  const show = (isQuestion) => {
    asks = isQuestion;
    setText(button, asks ? question() : text);
    button.classList.toggle("asks", asks);
  };
  button.addEventListener("click", () => {
    if (!asks && question() !== "") {
      show(true);
      return;
    }
    show(false);
    act();
  });
  button.addEventListener("blur", () => show(false));
  button.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !asks) return;
    event.stopPropagation();
    show(false);
  });
}

function copyButton(text, node) {
  const button = textButton("Copy", "plain", async () => {
    await copyText(text(), node);
    button.focus();
    setText(button, "Copied");
    setTimeout(() => setText(button, "Copy"), 1500);
  });
  return button;
}

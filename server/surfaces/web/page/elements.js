// Elements and numbers for people, which the server's page and quire-bench's pages share.

// Text goes in as text, never as markup: much of it was chosen by clients, by a model or by a file.
function element(name, className, ...children) {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

function svgElement(name, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  return node;
}

function textButton(text, className, onClick) {
  const button = element("button", className, text);
  button.type = "button";
  button.addEventListener("click", onClick);
  return button;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const LOCALE = "en-US";
const GROUPED = new Intl.NumberFormat(LOCALE, {maximumFractionDigits: 0});
const THREE_DIGITS = new Intl.NumberFormat(LOCALE, {maximumSignificantDigits: 3});

// 0.0042, 0.5, 12.3, 1,234: three digits or more.
function numberText(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 100) return GROUPED.format(value);
  if (size < 0.1) return String(Number(value.toPrecision(2)));
  return String(Number(value.toFixed(size >= 10 ? 1 : 2)));
}

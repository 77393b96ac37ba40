// Who is looking, and so what is shown: the status, the chat, both, or the question for a key.
function showNotice(sentence) {
  setText($("notice"), sentence);
  $("notice").hidden = sentence === "";
}

// The view is in the address, so that it can be linked to and survives a reload.
function showView(view) {
  if (view !== wantedView()) history.pushState(null, "", `#${view}`);
  $("main").dataset.view = view;
  showPressed();
}

function showPressed() {
  for (const button of $("views").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", button.dataset.view === $("main").dataset.view);
  }
}

function wantedView() {
  return location.hash === "#chat" ? "chat" : "status";
}

function askForKey(error) {
  statusView.stop();
  for (const id of ["status", "chat", "views", "skip"]) $(id).hidden = true;
  $("main").dataset.has = "key";
  $("key-form").hidden = false;
  $("forget").hidden = true;
  setText($("key-error"), error);
  showState("locked", "locked");
  $("key").value = "";
  $("key").focus();
}

// Asks for both things that this page is for; a server that does not answer is asked again.
async function begin() {
  showNotice("");
  let status, models;
  try {
    [status, models] = await Promise.all([call("/status"), call("/v1/models")]);
    if (status.status >= 500 || models.status >= 500) throw new Error("not now");
  } catch {
    showState("unreachable", "no answer");
    showNotice("The server does not answer. This page goes on trying.");
    setTimeout(begin, POLL_MS);
    return;
  }
  if (status.status === 401 || models.status === 401) {
    const hadKey = key.get() !== null;
    key.forget();
    askForKey(hadKey ? "The server does not know this key." : "");
    return;
  }
  await show(status, models);
}

async function show(status, models) {
  $("key-form").hidden = true;
  $("forget").hidden = key.get() === null;
  $("status").hidden = !status.ok;
  $("chat").hidden = !models.ok;
  $("skip").hidden = !models.ok;
  $("views").hidden = !(status.ok && models.ok);
  $("main").dataset.has = status.ok ? (models.ok ? "both" : "status") : "chat";
  if (!status.ok && !models.ok) {
    askForKey((await readError(status)).sentence);
    return;
  }
  // Who may see one of them sees that one, whatever the address says.
  $("main").dataset.view = status.ok && models.ok ? wantedView() : status.ok ? "status" : "chat";
  showPressed();
  if (models.ok) {
    chat.model = (await models.json()).data[0].id;
    chat.settings.findThinking(chat.model);
  }
  if (status.ok) {
    statusView.start(await status.json());
  } else {
    setText($("model"), chat.model);
    showState("chat", "chat only");
    $("state").title = (await readError(status)).sentence;
  }
}

const statusView = new StatusView(showNotice, begin);
const chat = new Chat(() => askForKey("The server does not know this key any more."));
$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key.set($("key").value.trim());
  begin();
});
// Who leaves takes along what they have said.
askFirst($("forget"), () => (chat.conversations.list().length > 0 ? "Forget key and chats?" : ""), () => {
  key.forget();
  chat.deleteAll();
  chat.settings.reset();
  begin();
});
$("skip").addEventListener("click", (event) => {
  event.preventDefault();  // its address would be that of no view
  if ($("prompt").offsetParent === null) showView("chat");
  $("prompt").focus();
});
window.addEventListener("popstate", () => {
  if ($("main").dataset.has === "both") showView(wantedView());
});
for (const button of $("views").querySelectorAll("button")) {
  button.addEventListener("click", () => showView(button.dataset.view));
}
begin();

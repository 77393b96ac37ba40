// The list of conversations: choose, delete, begin anew.
class Sidebar {
  constructor(conversations, {onOpen, onDelete, onDeleteAll}) {
    this.conversations = conversations;
    this.onOpen = onOpen;
    this.onDelete = onDelete;
    this.current = null;
    askFirst($("delete-all"), () => "Really delete all?", onDeleteAll);
    $("show-list").addEventListener("click", () => this.toggle(!this.isOpen));
    window.addEventListener("storage", (event) => {
      this.conversations.onStorage(event);
      this.show(this.current);
    });
  }

  get isOpen() {
    return $("show-list").getAttribute("aria-expanded") === "true";
  }

  // On a narrow screen the list lies over the conversation.
  toggle(isOpen) {
    $("show-list").setAttribute("aria-expanded", isOpen);
    $("sidebar").classList.toggle("shown", isOpen);
  }

  show(current) {
    this.current = current;
    const all = this.conversations.list();
    $("no-conversations").hidden = all.length > 0;
    $("delete-all").hidden = all.length === 0;
    $("list").replaceChildren(...all.map((one) => this.item(one)));
  }

  item({id, title, time}) {
    const open = textButton(title || "Untitled", "title", () => {
      this.toggle(false);
      this.onOpen(id);
    });
    open.title = `${title}\n${new Date(time).toLocaleString([], {dateStyle: "medium", timeStyle: "short"})}`;
    if (id === this.current) open.setAttribute("aria-current", "true");
    const remove = element("button", "delete", "×");
    remove.type = "button";
    remove.setAttribute("aria-label", `Delete ${title}`);
    askFirst(remove, () => "Delete?", () => {
      const index = this.conversations.list().findIndex((one) => one.id === id);
      this.onDelete(id);
      const rest = $("list").querySelectorAll(".title");
      (rest[Math.min(index, rest.length - 1)] || $("new-chat")).focus();
    });
    return element("li", "", open, remove);
  }
}

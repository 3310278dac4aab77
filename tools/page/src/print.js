// Paper has no scrolling: before printing, each table of rows in view gets a plain one beside it.

const made = [];

/** `table()` gives what is printed instead of `element`. */
export function printable(element, table) {
  element.classList.add("screen");
  made.push({element, table, paper: null});
}

window.addEventListener("beforeprint", () => {
  for (const entry of made) {
    entry.paper?.remove();
    if (!entry.element.isConnected) continue;
    entry.paper = entry.table();
    entry.paper.classList.add("paper");
    entry.element.after(entry.paper);
  }
});
window.addEventListener("afterprint", () => { for (const entry of made) entry.paper?.remove(); });

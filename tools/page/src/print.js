// Paper has no scrolling: before printing, each table of rows in view gets a plain one beside it.

const made = [],
  before = [];

/** `table()` gives what is printed instead of `element`. */
export function printable(element, table) {
  element.classList.add("screen");
  made.push({element, table, paper: null});
}

/** What is to be on paper may have to be made first. */
export const beforePrinting = (action) => before.push(action);

window.addEventListener("beforeprint", () => {
  for (const action of before) action();
  for (const entry of made) {
    entry.paper?.remove();
    if (!entry.element.isConnected) continue;
    entry.paper = entry.table();
    entry.paper.classList.add("paper");
    entry.element.after(entry.paper);
  }
});
window.addEventListener("afterprint", () => {
  for (const entry of made) entry.paper?.remove();
});

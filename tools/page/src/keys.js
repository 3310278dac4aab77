// Keys for the whole page; each section has its own besides.

import {make} from "./elements.js";

const HELP = [
  ["/", "search in the section in view"],
  ["1 \u2026 9", "to a section"],
  ["arrows", "move in boxes, trees and tables"],
  ["Enter", "into a box; open a row"],
  ["Backspace", "out of a box"],
  ["n, p", "next and previous range of the generated code"],
  ["], [", "next and previous of several marked ranges"],
  ["?", "this help"],
];

/** `sections()` in order, `current()` the one in view, `pair()` what steps through ranges, if it is there. */
export function listenToKeys({sections, current, open, pair}) {
  const help = make(
    "dialog",
    {"aria-labelledby": "help-title"},
    make("h2", {id: "help-title"}, "Keys"),
    make(
      "dl",
      {class: "keys"},
      ...HELP.flatMap(([key, words]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, words)]),
    ),
    make("form", {method: "dialog"}, make("button", {type: "button", onclick: () => help.close()}, "Close")),
  );
  document.body.append(help);
  const keys = new Map([
    ["/", () => current()?.element.querySelector("input.search")?.focus()],
    ["?", () => help.showModal()],
    ["n", () => pair()?.stepRange(1)],
    ["p", () => pair()?.stepRange(-1)],
    ["]", () => pair()?.stepMarked(1)],
    ["[", () => pair()?.stepMarked(-1)],
  ]);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || help.open) return;
    if (event.target.closest("input, select, textarea")) return;
    const section = /^[1-9]$/.test(event.key) ? sections()[Number(event.key) - 1] : null;
    const action = section ? () => open(section.id) : keys.get(event.key);
    if (!action) return;
    event.preventDefault();
    action();
  });
  return () => help.showModal();
}

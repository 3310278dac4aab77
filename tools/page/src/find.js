// Finding in the texts of the pair: all records and all source files, not the drawn lines alone.

import {searchField} from "./elements.js";
import {count} from "./texts.js";

const MOST = 10_000;

/** [text, position, length] of each match, whatever its case. */
function matchesIn(texts, wanted) {
  const pattern = new RegExp(wanted.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&"), "giu"),
    matches = [];
  for (const [number, text] of texts.entries()) {
    for (const match of text.matchAll(pattern))
      if (matches.push([number, match.index, match[0].length]) === MOST) return matches;
  }
  return matches;
}

/** A field; Enter goes to the next match, Shift+Enter back. `texts()` gives what is searched, `go(match)` shows one. */
export function finder(label, texts, here, go) {
  let matches = [],
    current = -1;
  const field = searchField(label, (wanted) => {
    matches = wanted ? matchesIn(texts, wanted) : [];
    current = matches.findIndex(([number]) => number >= here()) - 1;
    field.output.value = wanted
      ? `${matches.length === MOST ? "more than " : ""}${count(matches.length)} found, Enter steps`
      : "";
  });
  field.input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !matches.length) return;
    event.preventDefault();
    current = (current + (event.shiftKey ? -1 : 1) + matches.length) % matches.length;
    field.output.value = `${count(current + 1)} of ${count(matches.length)}`;
    go(matches[current]);
  });
  return field.element;
}

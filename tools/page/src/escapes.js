// A text to be looked at: what cannot be seen, or looks like a blank, stands there as a marked escape.

import {make} from "./elements.js";
import {INVISIBLE, escaped} from "./texts.js";

const HIDDEN = new RegExp(`[\\t\\n]|(?! )\\p{Zs}|${INVISIBLE.source}`, "gu");
const SHORT = new Map([
  ["\t", "\\t"],
  ["\n", "\\n"],
]);

/** Texts and elements that show a text; its lines stay lines. */
export function marked(text) {
  const nodes = [];
  let end = 0;
  for (const {0: letter, index} of text.matchAll(HIDDEN)) {
    nodes.push(
      text.slice(end, index),
      make("span", {class: "escape"}, SHORT.get(letter) ?? escaped(letter.codePointAt(0))),
    );
    if (letter === "\n") nodes.push("\n");
    end = index + letter.length;
  }
  return [...nodes, text.slice(end)];
}

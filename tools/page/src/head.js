// The head: what the file is, who wrote it, how much of it is debug information, what was found in it.

import {fact, make} from "./elements.js";
import {linkTo} from "./state.js";
import {bytes, count, counted, percent, shown} from "./texts.js";

const SOURCE = new Map([
  ["full", "This page may hold source text and paths of the one who built the model."],
  ["basename", "This page may hold source text of the model; of paths, the file names alone."],
]);

const MOST_KINDS = 3; // of findings, by name

export function headOf(head) {
  const facts = make("dl", {class: "facts"});
  const add = (title, ...value) => value.some(Boolean) && facts.append(fact(title, ...value));
  add("Kind", shown(head.kind));
  add("Top module", head.top && shown(head.top));
  add("Written by", head.release && released(head));
  add("Label", head.label && shown(head.label));
  add("Platform", head.platform && shown(head.platform));
  add("Size", make("span", {title: `${count(head.size)} bytes`}, bytes(head.size)));
  add("Before", head.base && shown(head.base));
  if (head.debug_bytes !== null && head.debug_bytes !== undefined) {
    add(
      "Debug information",
      make("span", {}, `${bytes(head.debug_bytes)} \u00b7 ${percent(head.debug_bytes, head.size)} `),
      share(head.debug_bytes, head.size),
    );
  }
  add("Archive id", head.archive_id && make("code", {}, shown(head.archive_id)));
  if (head.verify) add("verify", verdict(head.verify));
  if (head.leaks) add("leaks", ...leaks(head.leaks, head.not_counted));
  return [facts, SOURCE.has(head.source) && make("p", {class: "notice"}, SOURCE.get(head.source))].filter(
    Boolean,
  );
}

function released({release, evidence}) {
  if (!evidence?.length) return shown(`PyTorch ${release}`);
  return make(
    "details",
    {},
    make("summary", {}, shown(/pytorch/i.test(release) ? release : `PyTorch ${release}`)),
    make("ul", {}, ...evidence.map((sign) => make("li", {}, shown(sign)))),
  );
}

function share(part, all) {
  return make(
    "span",
    {class: "meter", "aria-hidden": "true"},
    make("span", {style: {width: `${all ? (100 * part) / all : 0}%`}}),
  );
}

function verdict({error, warning, note}) {
  const words = [
    [error, "error"],
    [warning, "warning"],
    [note, "note"],
  ].filter(([number]) => number);
  if (!words.length) return make("span", {class: "badge well"}, "well");
  return make(
    "a",
    {href: linkTo({section: "findings", finding: "verify"})},
    ...words.map(([number, word]) => make("span", {class: `badge ${word}`}, counted(number, word))),
  );
}

/** What counts, and what does not, in the words of `debug-archive leaks`; both are among the findings. */
function leaks(kinds, notCounted) {
  const link = (text) => make("a", {href: linkTo({section: "findings", finding: "leaks"})}, text);
  return [
    kinds.length ? link(numbered(kinds)) : make("span", {class: "badge well"}, "nothing found"),
    notCounted.length > 0 && make("span", {}, " \u00b7 not counted: ", link(numbered(notCounted))),
  ];
}

function numbered(kinds) {
  const words = kinds.slice(0, MOST_KINDS).map(([kind, number]) => `${shown(kind)} ${count(number)}`);
  const more = kinds.length - words.length;
  return words.join(", ") + (more ? ` and ${counted(more, "further kind")}` : "");
}

// The head: what the file is, who wrote it, how much of it is debug information, what was found in it.

import {make} from "./elements.js";
import {linkTo} from "./state.js";
import {bytes, count, counted, percent, shown} from "./texts.js";

const SOURCE = new Map([
  ["full", "This page may hold source text and paths of the one who built the model."],
  ["basename", "This page may hold source text of the model; of paths, the file names alone."],
]);

export function headOf(head) {
  const facts = make("dl", {class: "facts"});
  const fact = (title, ...value) =>
    value.some(Boolean) && facts.append(make("div", {}, make("dt", {}, title), make("dd", {}, ...value)));
  fact("Kind", shown(head.kind));
  fact("Top module", head.top && shown(head.top));
  fact("Written by", head.release && released(head));
  fact("Platform", head.platform && shown(head.platform));
  fact("Size", make("span", {title: `${count(head.size)} bytes`}, bytes(head.size)));
  if (head.debug_bytes !== null && head.debug_bytes !== undefined) {
    fact(
      "Debug information",
      make("span", {}, `${bytes(head.debug_bytes)} \u00b7 ${percent(head.debug_bytes, head.size)} `),
      share(head.debug_bytes, head.size),
    );
  }
  fact("Archive id", head.archive_id && make("code", {}, shown(head.archive_id)));
  if (head.verify) fact("verify", verdict(head.verify));
  if (head.leaks) fact("leaks", leaks(head.leaks));
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

function leaks(kinds) {
  if (!kinds.length) return make("span", {class: "badge well"}, "nothing");
  const words = kinds.map(([kind, number]) => `${shown(kind)} \u00d7 ${count(number)}`);
  return make(
    "a",
    {href: linkTo({section: "findings", finding: "leaks"})},
    words.slice(0, 3).join(", ") + (words.length > 3 ? ` and ${words.length - 3} more` : ""),
  );
}

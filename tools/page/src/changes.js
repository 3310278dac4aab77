// Section: the lines of source and generated code that differ from those of the older file, one below the other.

import {badge, make} from "./elements.js";
import {beforePrinting} from "./print.js";
import {counted, count, shown, shownText} from "./texts.js";

const OPEN = 3; // files whose lines are shown at once
const STATUS = new Map([
  ["changed", "warning"],
  ["new", "well"],
  ["gone", "error"],
]);

export function changesSection(changes) {
  if (!changes.length) return {nodes: [make("p", {}, "Source and generated code are the same.")]};
  const parts = changes.map((one, n) => part(one, n < OPEN));
  beforePrinting(() => parts.forEach((one) => one.setAttribute("open", "")));
  return {nodes: parts};
}

function part({name, status, was, added, gone, old, now, text}, isOpen) {
  const sums = [added && `+${count(added)}`, gone && `\u2212${count(gone)}`].filter(Boolean).join(" ");
  const title = [
    make("code", {}, shown(name) || "(no name)"),
    " ",
    badge(STATUS.get(status) ?? "note", status),
    " ",
    make("span", {class: "sums"}, sums),
    was && make("span", {class: "sums"}, `was ${shown(was)}`),
  ].filter(Boolean);
  if (!old.length) return make("p", {class: "change"}, ...title);
  return make(
    "details",
    {class: "change", open: isOpen},
    make("summary", {}, ...title),
    make(
      "table",
      {class: "lines"},
      make("caption", {}, `${counted(added, "line")} added, ${counted(gone, "line")} gone`),
      make(
        "thead",
        {},
        make("tr", {}, ...["Before", "Now", "Line"].map((text) => make("th", {scope: "col"}, text))),
      ),
      make("tbody", {}, ...text.split("\n").map((one, n) => line(old[n], now[n], one))),
    ),
  );
}

function line(old, now, text) {
  const isGap = old === null && now === null;
  const kind = isGap ? "gap" : old === null ? "added" : now === null ? "gone" : null;
  const sign = {added: "+ ", gone: "\u2212 "}[kind] ?? (isGap ? "\u22ef" : "  ");
  const number = (value) => make("td", {class: "figure"}, value === null ? "" : String(value));
  return make("tr", {class: kind}, number(old), number(now), make("td", {}, `${sign}${shownText(text)}`));
}

// The page of a folder: totals, the largest files, a table of all, and of the chosen one all that is known; sums; what could
// not be read and why.

import {badge, bars, cell, fact, heading, link, make, reveal, tableOf} from "./elements.js";
import {searchable} from "./lists.js";
import {state} from "./state.js";
import {bytes, count, counted, percent, shown, worded} from "./texts.js";

const LARGEST = 20;
const LISTED = 1000; // files that could not be read
const sought = () => (state.get("section") === "files" && state.get("find")) || "";
const FIRST = new Set(["file", "state", "kind", "size", "debug_bytes", "release", "label"]); // what a card has

/** An address beside this page, or null: a name in the data cannot make it a script or another host. */
function beside(address) {
  try {
    const target = new URL(address, location.href);
    return target.protocol === location.protocol &&
      target.host === location.host &&
      /^(https?|file):$/.test(target.protocol)
      ? target.href
      : null;
  } catch {
    return null;
  }
}

export function folderSections(folder, sections) {
  const {files} = folder,
    rows = files.file.length;
  const add = (id, title, build) => sections.add(id, title, build, {tall: false});
  /** Leads to what is known of a file. */
  const goTo = (row) => {
    state.set({section: "files", row: files.file[row]});
    sections.open("files").choose(row);
  };
  const unread = [...files.file.keys()].filter((row) => files.unread[row] && !files.kind[row]);
  if (rows > unread.length)
    add(
      "largest",
      `The largest ${Math.min(LARGEST, rows - unread.length)} of ${counted(rows - unread.length, "file")}`,
      () => ({
        nodes: [largest(files, goTo)],
      }),
    );
  if (rows) add("files", "All files", () => allFiles(files, folder.columns, goTo));
  if (unread.length) add("refused", "Not read", () => ({nodes: [refused(files, unread, goTo)]}));
  for (const [number, table] of (folder.tables ?? []).entries())
    add(`table-${number}`, table.title, () => ({nodes: [sums(table)]}));
}

function largest(files, goTo) {
  const {file, size, debug_bytes: debug} = files;
  const order = file
      .map((_, row) => row)
      .filter((row) => size[row] !== null)
      .sort((a, b) => size[b] - size[a])
      .slice(0, LARGEST),
    most = size[order[0]] || 1;
  const legend = make(
    "th",
    {scope: "col"},
    make("i", {class: "swatch debug"}),
    "debug info ",
    make("i", {class: "swatch rest"}),
    "all else",
  );
  return tableOf(
    [heading("File"), heading("Size", "figure"), heading("Debug info", "figure"), legend],
    order.map((row) => {
      const own = debug[row] ?? 0;
      return [
        make("td", {}, linked(files, row, goTo), " ", ...stateOf(files, row, goTo)),
        cell(bytes(size[row]), "figure"),
        cell(debug[row] === null ? "" : `${bytes(own)} \u00b7 ${percent(own, size[row])}`, "figure"),
        cell(bars({rest: size[row] - own, debug: own}, most), "wide"),
      ];
    }),
  );
}

/** What is to be known first of a file, if that is grave; that it is the same as another one leads there. */
function stateOf({state: states, same_as: same, first, grave}, row, goTo) {
  if (!grave?.[row]) return [];
  const words = shown(states[row]),
    leads = states[row] === same?.[row] && (first?.[row] ?? null) !== null;
  return [badge(grave[row], leads ? link(words, () => goTo(first[row])) : words)];
}

/** A file's name, which leads to its page, or to what is known of it. */
function linked({file, page}, row, goTo) {
  const address = page?.[row] && beside(page[row]);
  return address ? make("a", {href: address}, shown(file[row])) : link(shown(file[row]), () => goTo(row));
}

function sums({columns, rows}) {
  const kinds = columns.map(([, as]) => (as === "text" ? null : "figure"));
  return tableOf(
    columns.map(([title], n) => heading(shown(title), kinds[n])),
    rows.map((cells) => cells.map((value, n) => cell(worded(value, columns[n][1]), kinds[n]))),
  );
}

function allFiles(files, columns, goTo) {
  const whole = make(
    "div",
    {class: "whole", "aria-live": "polite"},
    make("p", {class: "hint"}, "Enter or a click shows all that is known of a file."),
  );
  const open = (row) => {
    state.set({section: "files", row: files.file[row]});
    show(row);
  };
  const show = (row) => {
    whole.replaceChildren(...known(files, columns, row, goTo));
    reveal(whole);
  };
  const list = searchable(
    "Files",
    files.file.length,
    columns.map(([key, title, as]) => ({
      title,
      as,
      value: (row) => files[key][row],
      isWide: !FIRST.has(key),
      hue: key === "state" ? (row) => files.grave?.[row] : null,
    })),
    {onOpen: open, find: sought()},
  );
  const choose = (row) => {
    show(row);
    const place = list.grid.rows.indexOf(row);
    return place >= 0 ? list.grid.select(place) : undefined;
  };
  const follow = () => {
    if (sought() && sought() !== list.input.value) list.search(sought());
    const row = state.get("row") === null ? -1 : files.file.indexOf(state.get("row"));
    return row >= 0 ? choose(row) : undefined;
  };
  const ready = () => {
    list.fill();
    follow();
  };
  return {nodes: [list.element, whole], ready, follow, choose};
}

/** All that is known of a file, whatever columns have room. */
function known(files, columns, row, goTo) {
  const address = files.page?.[row] && beside(files.page[row]),
    first = files.first?.[row] ?? null;
  const facts = columns
    .filter(([key]) => !["file", "state"].includes(key) && worded(files[key][row], "text") !== "")
    .map(([key, title, as]) => {
      const words = worded(files[key][row], as);
      return fact(shown(title), key === "same_as" && first !== null ? link(words, () => goTo(first)) : words);
    });
  return [
    make("h3", {}, shown(files.file[row]), " ", ...stateOf(files, row, goTo)),
    address && make("p", {}, make("a", {href: address}, "Its page")),
    make("dl", {class: "facts"}, ...facts),
  ].filter(Boolean);
}

/** Files that could not be read, by cause, the most frequent cause first. */
function refused(files, unread, goTo) {
  const causes = new Map();
  for (const row of unread) causes.set(files.unread[row], [...(causes.get(files.unread[row]) ?? []), row]);
  const order = [...causes.values()].sort((a, b) => b.length - a.length).flat();
  const rest = order.length - LISTED;
  const table = tableOf(
    [heading("File"), heading("Why")],
    order
      .slice(0, LISTED)
      .map((row) => [
        cell(link(shown(files.file[row]), () => goTo(row))),
        cell(shown(files.unread[row]), "why"),
      ]),
  );
  return make("div", {}, table, rest > 0 && make("p", {class: "hint"}, `and ${count(rest)} more`));
}

// The page of a folder: totals, the largest files, a table of all with links to pages, sums, what was refused and why.

import {bars, cell, fact, heading, make, tableOf} from "./elements.js";
import {searchable} from "./lists.js";
import {bytes, count, counted, percent, shown, worded} from "./texts.js";

const LARGEST = 20;

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

export function folderSections(folder, add) {
  const {files} = folder,
    rows = files.file.length;
  add("totals", "Summary", () => ({
    nodes: [totals(folder.totals), ...(folder.notes ?? []).map((text) => make("p", {}, shown(text)))],
  }));
  if (rows) {
    add("largest", `The largest ${Math.min(LARGEST, rows)} of ${counted(rows, "file")}`, () => ({
      nodes: [largest(files)],
    }));
    add("files", "All files", () => allFiles(files, folder.columns));
  }
  for (const [number, table] of (folder.tables ?? []).entries())
    add(`table-${number}`, table.title, () => ({nodes: [sums(table)]}));
  if (folder.refused?.length) add("refused", "Not read", () => ({nodes: [refused(folder.refused)]}));
}

const totals = (pairs) =>
  make(
    "dl",
    {class: "facts"},
    ...pairs.map(([what, number]) =>
      fact(shown(what), worded(number, /bytes/.test(what) ? "bytes" : "number")),
    ),
  );

function largest({file, size, debug_bytes: debug, page}) {
  const order = file
      .map((_, row) => row)
      .sort((a, b) => size[b] - size[a])
      .slice(0, LARGEST),
    most = size[order[0]] || 1;
  const legend = make(
    "td",
    {},
    make("i", {class: "swatch debug"}),
    "debug information ",
    make("i", {class: "swatch rest"}),
    "all else",
  );
  return tableOf(
    [heading("File"), heading("Size", "figure"), heading("Debug information", "figure"), legend],
    order.map((row) => {
      const own = debug[row] ?? 0;
      return [
        cell(linked(file[row], page?.[row])),
        cell(bytes(size[row]), "figure"),
        cell(debug[row] === null ? "" : `${bytes(own)} \u00b7 ${percent(own, size[row])}`, "figure"),
        cell(bars({rest: size[row] - own, debug: own}, most), "wide"),
      ];
    }),
  );
}

function linked(name, page) {
  const address = page && beside(page);
  return address ? make("a", {href: address}, shown(name)) : shown(name);
}

function sums({columns, rows}) {
  const kinds = columns.map(([, as]) => (as === "text" ? null : "figure"));
  return tableOf(
    columns.map(([title], n) => heading(shown(title), kinds[n])),
    rows.map((cells) => cells.map((value, n) => cell(worded(value, columns[n][1]), kinds[n]))),
  );
}

function allFiles(files, columns) {
  const list = searchable(
    "Files",
    files.file.length,
    columns.map(([key, title, as]) => ({title, as, value: (row) => files[key][row]})),
    {
      onOpen: (row) => {
        const address = files.page?.[row] && beside(files.page[row]);
        if (address) location.assign(address);
      },
    },
  );
  return {
    nodes: [
      list.element,
      ...(files.page ? [make("p", {class: "hint"}, "Enter or a click opens a file's page.")] : []),
    ],
    ready: list.fill,
  };
}

const refused = (causes) =>
  tableOf(
    [heading("Files", "figure narrow"), heading("Why")],
    causes.map(([why, number]) => [cell(count(number), "figure narrow"), cell(shown(why))]),
  );

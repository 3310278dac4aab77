// The page of a folder: totals, the largest files, a table of all with links to pages, sums, what was refused and why.

import {make} from "./elements.js";
import {searchable} from "./lists.js";
import {bytes, count, counted, percent, shown} from "./texts.js";

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
  add("totals", "Together", () => ({
    nodes: [totals(folder.totals), ...(folder.notes ?? []).map((text) => make("p", {}, shown(text)))],
  }));
  if (rows) {
    add("largest", `The largest ${Math.min(LARGEST, rows)} of ${counted(rows, "file")}`, () => ({
      nodes: [largest(files)],
    }));
    add("files", "All files", () => allFiles(files, folder.columns));
  }
  for (const [number, table] of (folder.tables ?? []).entries())
    add(`table-${number}`, table.title, () => ({nodes: [plainTable(table)]}));
  if (folder.refused?.length) add("refused", "Not read", () => ({nodes: [refused(folder.refused)]}));
}

function totals(pairs) {
  const entries = Array.isArray(pairs) ? pairs : Object.entries(pairs ?? {});
  return make(
    "dl",
    {class: "facts"},
    ...entries.map(([what, value]) =>
      make(
        "div",
        {},
        make("dt", {}, shown(what)),
        make(
          "dd",
          {},
          typeof value === "number" ? (/bytes|size/.test(what) ? bytes(value) : count(value)) : shown(value),
        ),
      ),
    ),
  );
}

function largest({file, size, debug_bytes: debug, page}) {
  const order = file
      .map((_, row) => row)
      .sort((a, b) => size[b] - size[a])
      .slice(0, LARGEST),
    most = size[order[0]] || 1;
  const bar = (row) =>
    make(
      "span",
      {class: "bars", "aria-hidden": "true"},
      make("span", {class: "rest", style: {width: `${(100 * (size[row] - (debug[row] ?? 0))) / most}%`}}),
      make("span", {class: "debug", style: {width: `${(100 * (debug[row] ?? 0)) / most}%`}}),
    );
  return make(
    "table",
    {class: "plain"},
    make(
      "thead",
      {},
      make(
        "tr",
        {},
        ...["File", "Size", "Debug information"].map((title, n) =>
          make("th", {scope: "col", class: n ? "figure" : null}, title),
        ),
        make(
          "td",
          {},
          make("i", {class: "swatch debug"}),
          "debug information ",
          make("i", {class: "swatch rest"}),
          "all else",
        ),
      ),
    ),
    make(
      "tbody",
      {},
      ...order.map((row) =>
        make(
          "tr",
          {},
          make("td", {}, linked(file[row], page?.[row])),
          make("td", {class: "figure"}, bytes(size[row])),
          make(
            "td",
            {class: "figure"},
            debug[row] === null ? "" : `${bytes(debug[row])} \u00b7 ${percent(debug[row], size[row])}`,
          ),
          make("td", {class: "wide"}, bar(row)),
        ),
      ),
    ),
  );
}

function linked(name, page) {
  const address = page && beside(page);
  return address ? make("a", {href: address}, shown(name)) : shown(name);
}

const WORDS = {text: shown, number: count, bytes};
const words = (value, as) => (value === null || value === "" ? "" : (WORDS[as] ?? shown)(value));

function plainTable({columns, rows}) {
  const figure = (as) => (as === "text" ? null : "figure");
  return make(
    "table",
    {class: "plain"},
    make(
      "thead",
      {},
      make(
        "tr",
        {},
        ...columns.map(([title, as]) => make("th", {scope: "col", class: figure(as)}, shown(title))),
      ),
    ),
    make(
      "tbody",
      {},
      ...rows.map((cells) =>
        make(
          "tr",
          {},
          ...cells.map((cell, n) => make("td", {class: figure(columns[n][1])}, words(cell, columns[n][1]))),
        ),
      ),
    ),
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
  make(
    "table",
    {class: "plain"},
    make(
      "thead",
      {},
      make(
        "tr",
        {},
        make("th", {scope: "col", class: "figure narrow"}, "Files"),
        make("th", {scope: "col"}, "Why"),
      ),
    ),
    make(
      "tbody",
      {},
      ...causes.map(([why, number]) =>
        make("tr", {}, make("td", {class: "figure narrow"}, count(number)), make("td", {}, shown(why))),
      ),
    ),
  );

// Sections that are tables: handles, instructions, nodes, kernels, findings. Each with its search.

import {link, make, reveal, searchField} from "./elements.js";
import {Grid} from "./grid.js";
import {state} from "./state.js";
import {count, counted, shown} from "./texts.js";
import {stackOf} from "./unpack.js";

/** A grid with a search field over its columns, without those that are empty. `rows` is how many. */
export function searchable(label, rows, columns, {onOpen, find = "", sorted = null} = {}) {
  const search = searchField("Search", () => fill());
  search.input.value = find;
  const filled = columns.filter(({value}) => {
    for (let row = 0; row < rows; row++) if (![null, undefined, ""].includes(value(row))) return true;
    return false;
  });
  const grid = new Grid({label, columns: filled, onOpen});
  grid.sorted = sorted;
  const matches = (row, wanted) =>
    filled.some((column) => grid.text(column, row).toLowerCase().includes(wanted));
  function fill() {
    const wanted = search.input.value.toLowerCase(),
      matching = [];
    for (let row = 0; row < rows; row++) if (!wanted || matches(row, wanted)) matching.push(row);
    search.output.value =
      matching.length === rows
        ? counted(rows, "row")
        : `${count(matching.length)} of ${counted(rows, "row")}`;
    return grid.show(matching);
  }
  return {
    element: make("div", {class: "searchable"}, make("div", {class: "bar"}, search.element), grid.element),
    fill,
    search: (text) => {
      search.input.value = text;
      return fill();
    },
    input: search.input,
    grid,
  };
}

/** Handles: each opens as the frames of its call stack, innermost last as PyTorch prints them, with links to the source. */
export function handlesSection(handles, goTo) {
  const stack = make(
    "div",
    {class: "stack", "aria-live": "polite"},
    make("p", {class: "hint"}, "Choose a handle to see its call stack."),
  );
  const open = (row) => {
    const frames = stackOf(handles.frames, row);
    stack.replaceChildren(
      make("h3", {}, `Handle ${handles.handle[row]}: ${shown(handles.operator[row])}`),
      frames.length
        ? make("ol", {class: "frames"}, ...frames.map((frame) => make("li", {}, framed(frame, goTo))))
        : make("p", {}, "It has no call stack here."),
    );
    reveal(stack);
  };
  const list = searchable(
    "Debug handles",
    handles.handle.length,
    [
      {
        title: "Handle",
        as: "number",
        value: (row) => handles.handle[row],
        words: (row) => String(handles.handle[row]),
      },
      {title: "Operator", value: (row) => handles.operator[row]},
      {title: "Module path", value: (row) => handles.path[row]},
      {title: "File", value: (row) => handles.file[row]},
      {
        title: "Line",
        as: "number",
        value: (row) => handles.line[row] || null,
        words: (row) => String(handles.line[row] || ""),
      },
    ],
    {onOpen: open, sorted: 0},
  );
  return {nodes: [list.element, stack], ready: list.fill};
}

const framed = ([record, position, text], goTo) =>
  record < 0 || position < 0 ? shown(text) : link(shown(text), () => goTo(record, position));

/** Instructions, nodes, kernels: whatever a kind of file has, with a link to its source where it is known. */
export function tableSection({title, columns, rows, links}, goTo) {
  const figures = rows.map(
    (column) =>
      column.some((value) => typeof value === "number") &&
      column.every((value) => value === null || typeof value === "number"),
  );
  const list = searchable(
    title,
    rows[0]?.length ?? 0,
    columns.map((name, n) => ({
      title: name,
      value: (row) => rows[n][row],
      as: figures[n] ? "number" : "text",
      words: (row) => rows[n][row], // lines and handles, as they stand in other texts
    })),
    {onOpen: (row) => links?.[row] && goTo(links[row])},
  );
  const leads =
    links?.some(Boolean) && make("p", {class: "hint"}, "Enter or a click leads to a row's line of source.");
  return {nodes: [list.element, leads].filter(Boolean), ready: list.fill};
}

const GRAVITY = ["error", "warning", "note"];

/**
 * What `verify`, `leaks`, `migrate`, `lite` and `symbolicate` say, the gravest first. `goToRecord(name)` gives what opens
 * a record in the pair, or null.
 */
export function findingsSection(findings, goToRecord) {
  const weight = (row) => GRAVITY.indexOf(findings.severity[row]) + 1 || GRAVITY.length + 1;
  const order = findings.severity.map((_, row) => row).sort((a, b) => weight(a) - weight(b) || a - b);
  const column = (name) => (row) => findings[name][order[row]];
  const list = searchable(
    "Findings",
    order.length,
    [
      {title: "From", value: column("from")},
      {title: "Severity", value: column("severity")},
      {title: "What", value: column("what")},
      {title: "Record", value: column("record")},
      {title: "Place", value: column("place")},
      {title: "Message", isName: true, value: column("message")},
    ],
    {onOpen: (row) => open(row), find: state.get("finding") ?? ""},
  );
  const whole = make(
    "div",
    {class: "whole", "aria-live": "polite"},
    make("p", {class: "hint"}, "Choose a finding to read all of it."),
  );
  function open(row) {
    const [record, where] = [column("record")(row), column("place")(row)],
      open = goToRecord(record);
    whole.replaceChildren(
      make("h3", {}, `${column("from")(row)}, ${column("severity")(row)}: ${shown(column("what")(row))}`),
      make("p", {}, shown(column("message")(row))),
      make(
        "p",
        {class: "hint"},
        open ? link(shown(record), open) : shown(record),
        where ? `, ${shown(where)}` : "",
      ),
    );
    reveal(whole);
  }
  return {
    nodes: order.length ? [list.element, whole] : [make("p", {}, "Nothing was found.")],
    ready: () => order.length && list.fill(),
    follow: () => order.length && list.search(state.get("finding") ?? ""),
  };
}

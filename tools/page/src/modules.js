// Section: the modules as a tree, with class, elements, bytes, effects and methods.

import {link, make, searchField} from "./elements.js";
import {Grid} from "./grid.js";
import {state} from "./state.js";
import {count, counted, shown} from "./texts.js";

export function modulesSection(modules, goTo) {
  const {path, parent} = modules,
    rows = path.length;
  const level = new Uint16Array(rows),
    children = Array.from({length: rows}, () => []),
    roots = [];
  for (let row = 0; row < rows; row++) {
    if (parent[row] < 0) roots.push(row);
    else {
      level[row] = level[parent[row]] + 1;
      children[parent[row]].push(row);
    }
  }
  const opened = new Set(roots);
  for (const root of roots) if (children[root].length === 1) opened.add(children[root][0]);
  const methods = make("div", {class: "methods", "aria-live": "polite"});
  const search = searchField("Search", () => fill());

  const name = (row) =>
    parent[row] < 0
      ? path[row] || "(top)"
      : path[row].slice(path[parent[row]] ? path[parent[row]].length + 1 : 0);
  const grid = new Grid({
    label: "Modules",
    onOpen: (row) => open(row),
    tree: {
      level: (row) => (search.input.value ? 0 : level[row]),
      expanded: (row) => (children[row].length && !search.input.value ? opened.has(row) : null),
      toggle: (row, expand) => {
        if (expand) opened.add(row);
        else opened.delete(row);
        return fill(row);
      },
    },
    columns: [
      {title: "Module", value: (row) => (search.input.value ? path[row] : name(row))},
      {title: "Class", value: (row) => modules.class[row]},
      {title: "Elements", as: "number", value: (row) => modules.elements[row]},
      {title: "Bytes", as: "bytes", value: (row) => modules.bytes[row]},
      ...(modules.effects?.some((figure) => figure)
        ? [{title: "Effects", as: "number", value: (row) => modules.effects[row] || null}]
        : []),
      ...(modules.methods.some((own) => own.length)
        ? [{title: "Methods", value: (row) => modules.methods[row].map(([method]) => method).join(", ")}]
        : []),
    ],
  });

  function open(row) {
    state.set({module: path[row] || null});
    const links = (modules.methods[row] ?? []).map(([method, record, position]) =>
      make("li", {}, record < 0 ? shown(method) : link(shown(method), () => goTo(record, position))),
    );
    methods.replaceChildren(
      make("h3", {}, `${shown(path[row] || "(top)")}: ${shown(modules.class[row])}`),
      links.length ? make("ul", {}, ...links) : make("p", {}, "It has no methods of its own."),
    );
  }

  function visible() {
    const wanted = search.input.value.toLowerCase(),
      shownRows = [];
    if (wanted) {
      for (let row = 0; row < rows; row++)
        if (path[row].toLowerCase().includes(wanted) || modules.class[row].toLowerCase().includes(wanted))
          shownRows.push(row);
      return shownRows;
    }
    const waiting = [...roots].reverse();
    while (waiting.length) {
      const row = waiting.pop();
      shownRows.push(row);
      if (opened.has(row)) for (let n = children[row].length - 1; n >= 0; n--) waiting.push(children[row][n]);
    }
    return shownRows;
  }

  function fill(current = null) {
    const list = visible();
    search.output.value = search.input.value
      ? `${count(list.length)} of ${counted(rows, "module")}`
      : counted(rows, "module");
    return grid.show(list, current === null ? 0 : list.indexOf(current));
  }

  function follow() {
    const row = state.get("module") === null ? -1 : path.indexOf(state.get("module"));
    if (row < 0) return fill();
    for (let up = parent[row]; up >= 0; up = parent[up]) opened.add(up);
    open(row);
    return fill(row).then(() => grid.select(grid.current));
  }
  return {nodes: [make("div", {class: "bar"}, search.element), grid.element, methods], ready: follow, follow};
}

// Section: where the bytes are. One tree as a picture (treemap or icicle) and as a table, both of the part in focus.

import {chosen, laidOut} from "./boxes.js";
import {choice, make, searchField} from "./elements.js";
import {Grid} from "./grid.js";
import {printable} from "./print.js";
import {state} from "./state.js";
import {bytes, count, counted, growth, percent, shown} from "./texts.js";
import {Tree} from "./tree.js";

const MEASURES = [["stored", "Stored bytes"], ["inflated", "Inflated bytes"], ["elements", "Elements"]];

export function sizesSection(columns) {
  const tree = new Tree(columns), two = Boolean(columns.old);
  let focus = tree.find(state.get("in")), shape = state.get("shape") === "icicle" ? "icicle" : "treemap";
  let measure = MEASURES.some(([name]) => name === state.get("measure")) ? state.get("measure") : "stored";
  const own = () => (measure === "elements" ? count : bytes);
  const totals = () => (two && measure === "stored" ? tree.larger() : tree.totals(measure));
  const grew = (row) => tree.totals("stored")[row] - tree.totals("old")[row];

  const crumbs = make("nav", {class: "crumbs", "aria-label": "Part in focus"});
  const picture = make("div", {class: "picture", role: "group", "aria-label": "Sizes as boxes; arrows move, Enter opens, Backspace goes out"});
  const legend = make("ul", {class: "legend", "aria-label": "Colours"});
  const search = searchField("Search", () => fill());
  search.input.value = state.get("find") ?? "";
  const shapes = choice("Picture", [["treemap", "Treemap"], ["icicle", "Icicle"]], shape, (value) => { shape = value; state.set({shape: value === "icicle" ? value : null}); draw(); });
  const measures = choice("Measure", MEASURES.filter(([name]) => columns[name]?.some((figure) => figure > 0)), measure, (value) => { measure = value; state.set({measure: value === "stored" ? null : value}); draw(); fill(); });

  const grid = new Grid({
    label: "Sizes, row by row", onOpen: (row) => go(tree.isLeaf(row) ? columns.parent[row] : row),
    columns: [
      {title: "Name", value: (row) => tree.path(row)},
      {title: "Stored", as: "bytes", value: (row) => tree.totals("stored")[row]},
      ...(two ? [{title: "Before", as: "bytes", value: (row) => tree.totals("old")[row]}, {title: "Growth", as: "bytes", value: grew, words: (row) => growth(grew(row))}] : []),
      {title: "Share", as: "number", value: (row) => tree.totals("stored")[row], words: (row) => percent(tree.totals("stored")[row], tree.totals("stored")[0])},
      {title: "Inflated", as: "bytes", value: (row) => tree.totals("inflated")[row] || null},
      {title: "Elements", as: "number", value: (row) => tree.totals("elements")[row] || null},
      {title: "Type and shape", value: (row) => columns.what[row]},
      {title: "Record", value: (row) => columns.record[row]},
    ].filter(({title}) => (title === "Elements" ? tree.totals("elements")[0] : title === "Type and shape" ? columns.what.some(Boolean) : true)),
  });

  function go(row, {step = true} = {}) {
    if (row === focus) return;
    focus = row;
    state.set({in: row ? tree.path(row) : null}, {step});
    draw();
    fill();
  }

  function draw() {
    const width = picture.clientWidth || 900, height = picture.clientHeight || 380;
    const sums = totals(), root = chosen(tree, sums, focus, (sums[focus] / (width * height)) * 40);
    const boxes = laidOut(root, shape, width, height).map((place) => drawnBox(place, sums));
    picture.replaceChildren(...boxes);
    if (boxes.length) boxes[0].tabIndex = 0;
    else picture.append(make("p", {}, "Nothing here has this measure."));
    const way = [0, ...tree.way(focus)];
    crumbs.replaceChildren(...way.map((row, n) => make("button", {type: "button", "aria-current": n === way.length - 1 ? "true" : null, onclick: () => go(row)}, shown(columns.name[row]))),
      make("span", {class: "sum"}, `${own()(sums[focus])} \u00b7 ${percent(sums[focus], sums[0])} of the file`));
    legend.replaceChildren(...(two ? growthLegend() : kindLegend(sums)));
  }

  function drawnBox({node, depth, leaf, x, y, width, height}, sums) {
    const name = node.others ? counted(node.others, "other") : shown(columns.name[node.row]);
    const change = two && !node.others ? `, ${growth(grew(node.row))}` : "";
    const figure = own()(node.value), label = `${name}, ${figure}, ${percent(node.value, sums[0])}${change}`;
    const kind = two ? (node.others ? "same" : hue(grew(node.row), sums[node.row])) : `k${columns.kind[node.row] % 8}`;
    return make("button", {
      type: "button", class: `box ${kind} ${leaf ? "leaf" : "inner"}`, tabindex: -1, "aria-label": label, title: `${label}${columns.what[node.row] && !node.others ? `\n${shown(columns.what[node.row])}` : ""}`,
      "data-row": node.row, "data-value": node.value, "data-others": node.others || null, "data-depth": depth,
      style: {left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px`, "--depth": depth},
      onclick: () => go(tree.isLeaf(node.row) ? columns.parent[node.row] : node.row),
    }, width > 36 && height > 13 ? make("span", {}, `${name} `, make("small", {}, two && !node.others ? growth(grew(node.row)) : figure)) : "");
  }

  const kindLegend = (sums) => Array.from(tree.children(0)).filter((row) => sums[row] > 0).sort((a, b) => sums[b] - sums[a]).slice(0, 8)
    .map((row) => make("li", {}, make("i", {class: `k${columns.kind[row] % 8}`}), `${shown(columns.name[row])} `, make("small", {}, `${own()(sums[row])} \u00b7 ${percent(sums[row], sums[0])}`)));
  const growthLegend = () => [["grew2", "grew by half or more"], ["grew", "grew"], ["same", "as before"], ["shrank", "shrank"], ["shrank2", "shrank by half or more"]]
    .map(([hueName, words]) => make("li", {}, make("i", {class: hueName}), words));

  function fill() {
    const wanted = search.input.value.toLowerCase(), inside = tree.below(focus), sums = tree.totals("stored"), rows = [];
    const paths = wanted ? tree.paths() : null;
    for (let row = 1; row < tree.rows; row++) {
      if (!inside[row] || !tree.isLeaf(row)) continue;
      if (!wanted || paths[row].toLowerCase().includes(wanted) || columns.what[row].toLowerCase().includes(wanted)) rows.push(row);
    }
    search.output.value = `${count(rows.length)} of ${counted(leaves, "row")}`;
    state.set({find: wanted ? search.input.value : null});
    return grid.show(rows.sort((a, b) => sums[b] - sums[a] || a - b));
  }
  let leaves = 0;
  for (let row = 1; row < tree.rows; row++) leaves += Number(tree.isLeaf(row));

  picture.addEventListener("keydown", (event) => {
    const box = event.target.closest(".box");
    if (!box) return;
    if (event.key === "Backspace" && focus) go(columns.parent[focus]);
    else if (event.key.startsWith("Arrow")) step(picture, box, event.key);
    else return;
    event.preventDefault();
    if (event.key === "Backspace") picture.firstElementChild?.focus();
  });
  printable(picture, () => levels(tree, columns));
  new ResizeObserver(() => { if (Math.abs(picture.clientWidth - (picture.drawnWidth ?? 0)) > 1) { picture.drawnWidth = picture.clientWidth; draw(); } }).observe(picture);

  return {
    nodes: [make("div", {class: "bar"}, crumbs, shapes.element, measures.element), picture, legend, make("div", {class: "bar"}, search.element), grid.element],
    ready: () => fill(),
    follow: () => { search.input.value = state.get("find") ?? ""; const row = tree.find(state.get("in")); if (row !== focus) go(row, {step: false}); else fill(); },
  };
}

/** The class of a change: half of the larger size is much. */
function hue(change, size) {
  if (!change) return "same";
  const much = Math.abs(change) >= size / 2;
  return (change > 0 ? "grew" : "shrank") + (much ? "2" : "");
}

/** Arrows: the nearest box in that direction. */
function step(picture, box, key) {
  const from = centre(box), [dx, dy] = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[key];
  let nearest = null, least = Infinity;
  for (const other of picture.querySelectorAll(".box")) {
    const to = centre(other), along = (to.x - from.x) * dx + (to.y - from.y) * dy, aside = Math.abs((to.x - from.x) * dy) + Math.abs((to.y - from.y) * dx);
    if (other !== box && along > 1 && along + 2 * aside < least) [nearest, least] = [other, along + 2 * aside];
  }
  if (!nearest) return;
  box.tabIndex = -1;
  nearest.tabIndex = 0;
  nearest.focus();
}
const centre = (box) => ({x: box.offsetLeft + Math.min(box.offsetWidth / 2, 40), y: box.offsetTop + Math.min(box.offsetHeight / 2, 8)});

/** For paper: the first two levels of the tree as a table. */
function levels(tree, columns) {
  const sums = tree.totals("stored"), lines = [];
  const line = (row) => lines.push(make("tr", {}, make("td", {}, shown(tree.path(row))), make("td", {}, bytes(sums[row])), make("td", {}, percent(sums[row], sums[0]))));
  const inOrder = (row) => Array.from(tree.children(row)).sort((a, b) => sums[b] - sums[a]);
  for (const row of inOrder(0)) { line(row); inOrder(row).slice(0, 20).forEach(line); }
  return make("table", {}, make("caption", {}, `Sizes of ${shown(columns.name[0])}, ${bytes(sums[0])}`), make("thead", {}, make("tr", {}, ...["Part", "Stored", "Share"].map((title) => make("th", {scope: "col"}, title)))), make("tbody", {}, ...lines));
}

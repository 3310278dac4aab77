// Section: where the bytes are. One tree as a picture and as a table, both of the part in focus.

import {cell, choice, heading, make, searchField, tableOf} from "./elements.js";
import {Grid} from "./grid.js";
import {Picture} from "./picture.js";
import {printable} from "./print.js";
import {state} from "./state.js";
import {bytes, count, counted, growth, percent, shown} from "./texts.js";
import {Tree} from "./tree.js";

const SHAPES = [
  ["treemap", "Treemap"],
  ["icicle", "Icicle"],
];
const MEASURES = [
  ["stored", "Stored bytes"],
  ["inflated", "Inflated bytes"],
  ["elements", "Elements"],
];
const PRINTED_PARTS = 20; // of each of the first level

export function sizesSection(columns) {
  const section = new Sizes(new Tree(columns));
  return {nodes: section.nodes, ready: () => section.start(), follow: () => section.follow()};
}

class Sizes {
  constructor(tree) {
    this.tree = tree;
    this.leaves = tree.leavesBelow(0);
    this.crumbs = make("nav", {class: "crumbs", "aria-label": "Part in focus"});
    this.picture = new Picture(tree, {
      onOpen: (row) => this.go(tree.branch(row)),
      onLeave: () => this.go(tree.outer(this.picture.focus, this.picture.totals)),
    });
    this.search = searchField("Search", () => this.fill());
    this.search.input.value = state.get("find") ?? "";
    this.grid = new Grid({
      label: "Sizes, row by row",
      columns: columnsOf(tree),
      onOpen: (row) => this.go(tree.branch(row)),
    });
    const measures = MEASURES.filter(([name]) => tree.totals(name)[0] > 0);
    const shape = known(SHAPES, state.get("shape"));
    const measure = known(measures, state.get("measure"));
    this.nodes = [
      make(
        "div",
        {class: "bar"},
        this.crumbs,
        choice("Picture", SHAPES, shape, (value) => this.#draw("shape", value)).element,
        choice("Measure", measures, measure, (value) => this.#draw("measure", value)).element,
      ),
      this.picture.element,
      this.picture.legend,
      make("div", {class: "bar"}, this.search.element),
      this.grid.element,
    ];
    printable(this.picture.element, () => printed(tree));
    Object.assign(this.picture, {shape, measure, focus: tree.find(state.get("in"))});
  }

  /** Draws everything, which has its place in the page by now. */
  start() {
    this.picture.draw();
    this.#showWay();
    return this.fill();
  }

  #draw(what, value) {
    state.set({[what]: value === "treemap" || value === "stored" ? null : value});
    this.picture.draw({[what]: value});
    this.#showWay();
  }

  /** Brings a row into focus; `step` is one that Back returns from. */
  go(row, {step = true} = {}) {
    if (row === this.picture.focus) return;
    state.set({in: row ? this.tree.path(row) : null}, {step});
    this.picture.draw({focus: row});
    this.#showWay();
    this.fill();
  }

  #showWay() {
    const {tree, picture} = this;
    const way = [0, ...tree.way(picture.focus)];
    const buttons = way.map((row) => {
      const current = row === picture.focus ? "true" : null;
      const name = shown(tree.columns.name[row]);
      return make("button", {type: "button", "aria-current": current, onclick: () => this.go(row)}, name);
    });
    const share = picture.figures(picture.focus, " of the file").filter(Boolean).join(" \u00b7 ");
    this.crumbs.replaceChildren(...buttons, make("span", {class: "sum"}, share));
  }

  /** The table: leaves below the focus that have the searched text in path, type, shape or record, the largest first. */
  fill() {
    const {tree, search} = this;
    const wanted = search.input.value.toLowerCase();
    const has = (text) => text.toLowerCase().includes(wanted);
    const paths = wanted ? tree.paths() : null;
    const {what, record} = tree.columns;
    const rows = tree
      .leavesBelow(this.picture.focus)
      .filter((row) => !wanted || [paths[row], what[row], record[row]].some(has));
    const sums = tree.totals("stored");
    search.output.value = `${count(rows.length)} of ${counted(this.leaves.length, "row")}`;
    state.set({find: wanted ? search.input.value : null});
    return this.grid.show(rows.sort((a, b) => sums[b] - sums[a] || a - b));
  }

  follow() {
    this.search.input.value = state.get("find") ?? "";
    const row = this.tree.find(state.get("in"));
    if (row === this.picture.focus) this.fill();
    else this.go(row, {step: false});
  }
}

const known = (options, value) =>
  options.some(([name]) => name === value) ? value : (options[0]?.[0] ?? "stored");

function columnsOf(tree) {
  const [stored, inflated, elements] = MEASURES.map(([name]) => tree.totals(name));
  const {what, record} = tree.columns;
  const share = (row) => percent(stored[row], stored[0]);
  const columns = [
    {title: "Name", value: (row) => tree.path(row)},
    {title: "Stored", as: "bytes", value: (row) => stored[row]},
    {title: "Share", as: "number", value: (row) => stored[row], words: share},
    {title: "Inflated", as: "bytes", value: (row) => inflated[row] || null},
  ];
  if (tree.isTwo) {
    const before = {title: "Before", as: "bytes", value: (row) => tree.totals("old")[row]};
    const change = (row) => tree.growth(row);
    columns.splice(2, 0, before, {
      title: "Growth",
      as: "bytes",
      value: change,
      words: (row) => growth(change(row)),
    });
  }
  if (elements[0]) columns.push({title: "Elements", as: "number", value: (row) => elements[row] || null});
  if (what.some(Boolean)) columns.push({title: "Type and shape", value: (row) => what[row]});
  if (record.some(Boolean)) columns.push({title: "Record", value: (row) => record[row]});
  return columns;
}

/** For paper: the first two levels of the tree as a table. */
function printed(tree) {
  const sums = tree.totals("stored");
  const line = (row) => {
    const texts = [shown(tree.path(row)), bytes(sums[row]), percent(sums[row], sums[0])];
    return texts.map((text) => cell(text));
  };
  const rows = tree.largest(0, sums).flatMap((row) => [row, ...tree.largest(row, sums, PRINTED_PARTS)]);
  const headings = ["Part", "Stored", "Share"].map((title) => heading(title));
  const caption = `Sizes of ${shown(tree.columns.name[0])}, ${bytes(sums[0])}`;
  return tableOf(headings, rows.map(line), {kind: null, caption});
}

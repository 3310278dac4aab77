// The picture of the tree of sizes: boxes as a treemap or an icicle, one tab stop, arrows to go from box to box.

import {chosen, laidOut} from "./boxes.js";
import {make} from "./elements.js";
import {bytes, count, counted, growth, percent, shown} from "./texts.js";

const SMALLEST = 40; // square pixels: what is smaller is part of "others"
const KINDS = 8; // colours
const CHAINED = " \u203a ";
const LINE = 17; // pixels: the height of a name
const PADDING = 12; // beside it
const SHORTEST = 50; // room for as much of a name as is worth to be read
const ARROWS = new Map([
  ["ArrowLeft", [-1, 0]],
  ["ArrowRight", [1, 0]],
  ["ArrowUp", [0, -1]],
  ["ArrowDown", [0, 1]],
]);

export class Picture {
  /** `onOpen(row)` is told of a box that is opened, `onLeave()` of Backspace. */
  constructor(tree, {onOpen, onLeave}) {
    Object.assign(this, {tree, onOpen, focus: 0, shape: "treemap", measure: "stored", width: 0});
    this.element = make("div", {
      class: "picture",
      role: "group",
      "aria-label": "Sizes as boxes; arrows move, Enter opens, Backspace goes out",
      onkeydown: (event) => this.#key(event, onLeave),
    });
    this.legend = make("ul", {class: "legend", "aria-label": "Colours"});
    new ResizeObserver(() => {
      if (Math.abs(this.element.clientWidth - this.width) > 1) this.draw();
    }).observe(this.element);
  }

  /** What the areas are: of two files, the larger of both sizes. */
  get totals() {
    const {tree, measure} = this;
    return tree.isTwo && measure === "stored" ? tree.larger() : tree.totals(measure);
  }

  words(figure) {
    return this.measure === "elements" ? count(figure) : bytes(figure);
  }

  /** The figure of a row in words, and its share of the whole; of two files both sizes, and the difference. */
  figures(row, of = "") {
    const {tree} = this;
    if (tree.isTwo && this.measure === "stored") {
      const [now, before] = ["stored", "old"].map((name) => bytes(tree.totals(name)[row]));
      return [now, `before ${before}`, growth(tree.growth(row))];
    }
    const share = percent(this.totals[row], this.totals[0]);
    return [this.words(this.totals[row]), share && share + of];
  }

  /** Draws what `changes` say of focus (a row), shape and measure. */
  draw(changes = {}) {
    Object.assign(this, changes);
    this.width = this.element.clientWidth || 900;
    const height = this.element.clientHeight || 380;
    const {tree, totals, focus} = this;
    const root = chosen(tree, totals, focus, (totals[focus] / (this.width * height)) * SMALLEST);
    const boxes = laidOut(root, this.shape, this.width, height).map((place) => this.#box(place));
    this.element.replaceChildren(...boxes);
    if (totals[focus] > 0) boxes[0].tabIndex = 0;
    else this.element.replaceChildren(make("p", {}, "Nothing here has this measure."));
    this.legend.replaceChildren(...(tree.isTwo ? growthLegend() : this.#kindLegend()));
  }

  #box({node, depth, leaf, x, y, width, height}) {
    const {tree, totals} = this;
    const {row, chain, others, value} = node;
    const names = others ? [counted(others, "other")] : chain.map((at) => shown(tree.columns.name[at]));
    const name = names.join(CHAINED);
    const rest = tree.isTwo ? [] : [this.words(value), percent(value, totals[0])];
    const figures = others ? rest : this.figures(row);
    const shownFigure = (tree.isTwo ? figures.at(-1) : figures[0]) ?? "";
    const label = [...new Set([name, shownFigure, ...figures])].filter(Boolean).join(", ");
    const what = others ? "" : shown(tree.columns.what[row]);
    return make(
      "button",
      {
        type: "button",
        class: `box ${this.#hue(node)} ${leaf ? "leaf" : "inner"}`,
        tabindex: -1,
        "aria-label": label,
        title: what ? `${label}\n${what}` : label,
        "data-row": row,
        "data-value": value,
        "data-others": others || null,
        "data-depth": depth,
        style: {left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px`},
        onclick: () => this.onOpen(row),
      },
      height >= LINE && this.#label(names, shownFigure, width - PADDING),
    );
  }

  /** What of a box's names, and of its figure, has room: nothing is cut by an edge but the end of a last name. */
  #label(names, figure, room) {
    const wide = (text) => this.#measured(text) <= room;
    const [all, last] = [names.join(CHAINED), names.at(-1)];
    if (wide(`${all} ${figure}`)) return make("span", {}, `${all} `, make("small", {}, figure));
    const less = names.length > 1 ? [all, `\u2026${CHAINED}${last}`] : [all];
    const whole = [...less, last].find(wide);
    return whole || room >= SHORTEST ? make("span", {}, whole ?? last) : null;
  }

  /** How long a text is, in pixels, in the letters of boxes. */
  #measured(text) {
    if (!this.pen) {
      const {fontFamily, fontSize} = getComputedStyle(this.element);
      this.pen = document.createElement("canvas").getContext("2d");
      this.pen.font = `${fontSize} ${fontFamily}`;
    }
    return this.pen.measureText(text).width;
  }

  /** The class that gives a box its colour: its kind, or of two files what became of its size. */
  #hue({row, others}) {
    const {tree} = this;
    if (!tree.isTwo) return kindClass(tree, row);
    return others ? "mixed" : tree.change(row);
  }

  #kindLegend() {
    const {tree, totals} = this;
    return tree.largest(0, totals, KINDS).map((row) => {
      const sum = `${this.words(totals[row])} \u00b7 ${percent(totals[row], totals[0])}`;
      const name = `${shown(tree.columns.name[row])} `;
      return make("li", {}, make("i", {class: kindClass(tree, row)}), name, make("small", {}, sum));
    });
  }

  #key(event, onLeave) {
    const box = event.target.closest(".box");
    if (!box) return;
    if (event.key === "Backspace") {
      onLeave();
      this.element.firstElementChild?.focus();
    } else if (ARROWS.has(event.key)) this.#step(box, ...ARROWS.get(event.key));
    else return;
    event.preventDefault();
  }

  /** To the nearest box in a direction. */
  #step(box, dx, dy) {
    const from = grip(box);
    let nearest = null;
    let least = Infinity;
    for (const other of this.element.querySelectorAll(".box")) {
      const [x, y] = [grip(other).x - from.x, grip(other).y - from.y];
      const along = x * dx + y * dy;
      const far = along + 2 * Math.abs(x * dy + y * dx);
      if (other !== box && along > 1 && far < least) [nearest, least] = [other, far];
    }
    if (!nearest) return;
    box.tabIndex = -1;
    nearest.tabIndex = 0;
    nearest.focus();
  }
}

const kindClass = (tree, row) => `k${tree.columns.kind[row] % KINDS}`;

/** Where a box is, for arrows: near its name, since an inner box lies on its outer one. */
const grip = (box) => ({
  x: box.offsetLeft + Math.min(box.offsetWidth / 2, 40),
  y: box.offsetTop + Math.min(box.offsetHeight / 2, 8),
});

const growthLegend = () => [
  ...[
    ["grew2", "grew to twice or more"],
    ["grew", "grew"],
    ["same", "same size"],
    ["shrank", "shrank"],
    ["shrank2", "shrank to half or less"],
  ].map(([hue, words]) => make("li", {}, make("i", {class: hue}), words)),
  make("li", {}, "an area is the larger of both sizes"),
];

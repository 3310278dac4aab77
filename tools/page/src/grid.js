// A table of any number of rows of which those in view are elements: regular-table, with roles, keys and order. A window that
// is not wide has cards in its place, unless all texts have room beside each other.
// One tab stop, as ARIA's grid and treegrid: the focus stays on the table, `aria-activedescendant` names the row.

import "regular-table";
import {Cards, MOST} from "./cards.js";
import {cell, heading, make, tableOf} from "./elements.js";
import {count, shown, worded} from "./texts.js";
import {printable} from "./print.js";

const PRINTED_ROWS = 200;
let grids = 0;

const NOT_WIDE = matchMedia("(max-width: 60rem)");
const PAGE = 5; // cards
const SHORTER = 0.5; // a text that is shorter than the longest by this much is not as wide
const SAMPLED = 300; // rows whose texts say how wide columns are
const PADDING = 24; // pixels beside a text
const SORTED = 20; // the arrow of a heading
const SPARE = 14; // pixels that stay free: texts are drawn a little wider than they are measured
const SCROLLBAR = 14;
const LEAST = 126; // what is left of a long text; where even that has no room, the table is scrolled
const FIRST = 0.45; // of the room, for what a row is called
const NAMED = 260; // pixels for that, also where the table is scrolled
const STEP = 17; // of a level of a tree

/** The largest number with which the widths, none larger than it, have room together. */
function highest(widths, room) {
  const order = [...widths].sort((a, b) => a - b);
  let left = room;
  for (const [n, width] of order.entries()) {
    const share = left / (order.length - n);
    if (width > share) return share;
    left -= width;
  }
  return (order.at(-1) ?? 0) + left;
}

const figures = (column) => (column?.as ?? "text") !== "text";

export class Grid {
  /**
   * `columns`: {title, value(row), as: "text" | "number" | "bytes", words(row)?, hue(row)?, isName?, isWide?}: a card has the
   * name first, by default the first text, and nothing that is wide; `onOpen(row)` follows Enter and click;
   * `tree`: {level(row), expanded(row) -> true, false or null, toggle(row, expand)} makes it a treegrid.
   */
  constructor({label, columns, onOpen = () => {}, tree = null, height = 360}) {
    Object.assign(this, {
      label: shown(label),
      columns: columns.map((column) => ({...column, title: shown(column.title)})),
      onOpen,
      tree,
      rows: [],
      current: 0,
      sorted: null,
      descending: false,
    });
    this.id = `grid${grids++}`;
    this.table = document.createElement("regular-table");
    const onKey = (event) => this.#key(event);
    this.cards = new Cards(this, onKey);
    this.element = make(
      "div",
      {class: "grid", style: {height: `${height}px`}},
      this.table,
      this.cards.element,
    );
    this.height = height;
    this.table.setDataListener((x0, y0, x1, y1) => this.#part(x0, y0, x1, y1));
    this.table.addStyleListener(() => this.#dress());
    new ResizeObserver(() => {
      if (this.#cap()) this.draw();
    }).observe(this.element);
    this.table.addEventListener("keydown", onKey);
    this.table.addEventListener("click", (event) => this.#click(event));
    printable(this.element, () => this.#printed());
  }

  /** Shows `rows`, which the columns' functions know, in this order or as the reader has sorted them. */
  show(rows, current = 0) {
    this.unsorted = rows;
    this.rows = this.sorted === null ? rows : this.#inOrder(rows);
    this.current = Math.max(0, Math.min(current, this.rows.length - 1));
    this.element.style.height = `${Math.min(this.height, 24 * (this.rows.length + 1) + 20)}px`;
    this.#cap();
    return this.draw();
  }

  /**
   * Makes long texts end early where columns would otherwise stand beyond the table's edge, or takes cards; whether that changed.
   */
  #cap() {
    const isScrolled = 24 * (this.rows.length + 1) + 20 > this.height;
    const room = this.element.clientWidth - SPARE - (isScrolled ? SCROLLBAR : 0);
    if (room <= 0 || !this.columns.length) return false;
    const widths = this.#widths(),
      [name, ...others] = widths;
    const left = room - others.reduce((sum, width) => sum + Math.min(width, LEAST), 0);
    const worth = Math.max(Math.min(left, FIRST * room), Math.min(NAMED, FIRST * room));
    const first = Math.min(name, Math.max(highest([name, ...others], room), worth));
    const rest = Math.max(LEAST, highest(others, room - first));
    const caps = `${Math.ceil(first)} ${Math.floor(rest)}`,
      isCards = NOT_WIDE.matches && widths.reduce((sum, width) => sum + width, 0) > room;
    if (this.caps === caps && this.isCards === isCards) return false;
    Object.assign(this, {caps, isCards});
    this.element.classList.toggle("narrow", isCards);
    for (const [n, cap] of ["--first", "--cap"].entries())
      this.table.style.setProperty(cap, `${caps.split(" ")[n]}px`);
    this.table.resetAutoSize({auto: true});
    return true;
  }

  /** How wide each column would be, by the longest texts of some rows. */
  #widths() {
    const step = Math.max(1, Math.floor(this.rows.length / SAMPLED)),
      rows = [];
    for (let n = 0; n < this.rows.length && rows.length < SAMPLED; n += step) rows.push(this.rows[n]);
    const {fontFamily, fontSize} = getComputedStyle(this.table),
      pen = document.createElement("canvas").getContext("2d");
    const wide = (text, weight) => {
      pen.font = `${weight} ${fontSize} ${fontFamily}`;
      return pen.measureText(text).width;
    };
    return this.columns.map((column, n) => {
      let longest = 0,
        widest = wide(column.title, 600) + (n === this.sorted ? SORTED : 0);
      for (const row of rows) {
        const text = String(this.text(column, row)),
          level = this.tree && n === 0 ? this.tree.level(row) + 1 : 0;
        if (text.length < SHORTER * longest) continue;
        longest = Math.max(longest, text.length);
        widest = Math.max(widest, wide(text, 400) + STEP * level);
      }
      return PADDING + widest;
    });
  }

  draw() {
    if (!this.element.isConnected) return Promise.resolve();
    return this.isCards ? Promise.resolve(this.cards.draw()) : this.table.draw({invalid_viewport: true});
  }

  /** Makes a row the current one and brings it into view. */
  async select(index) {
    const last = (this.isCards ? Math.min(this.rows.length, MOST) : this.rows.length) - 1;
    this.current = Math.max(0, Math.min(index, last));
    if (this.isCards) {
      await this.draw();
      this.cards.reveal();
      return;
    }
    const height = this.table.querySelector("tbody td")?.offsetHeight || 24;
    const page = Math.max(1, Math.floor(this.table.clientHeight / height) - 2);
    const first = this.table.scrollTop / height;
    if (this.current < first) this.table.scrollTop = this.current * height;
    else if (this.current > first + page - 1) this.table.scrollTop = (this.current - page + 1) * height;
    await this.draw();
  }

  text({value, as = "text", words}, row) {
    return words ? shown(words(row)) : worded(value(row), as);
  }

  #part(x0, y0, x1, y1) {
    const rows = Array.from(this.rows.slice(y0, y1)),
      columns = this.columns.slice(x0, x1);
    return Promise.resolve({
      num_rows: this.rows.length,
      num_columns: this.columns.length,
      column_headers: columns.map(({title}) => [title]),
      data: columns.map((column) => rows.map((row) => this.text(column, row))),
    });
  }

  #dress() {
    const {table, columns, tree} = this,
      inner = table.querySelector("table");
    if (!inner) return;
    for (const [name, value] of [
      ["role", tree ? "treegrid" : "grid"],
      ["aria-label", this.label],
      ["aria-rowcount", this.rows.length + 1],
      ["aria-colcount", columns.length],
      ["aria-readonly", "true"],
    ])
      table.setAttribute(name, value);
    inner.setAttribute("role", "presentation");
    for (const part of inner.children) part.setAttribute("role", "rowgroup");
    for (const line of inner.querySelectorAll("thead tr")) {
      line.setAttribute("role", "row");
      for (const cell of line.children) this.#dressHeading(cell, table.getMeta(cell)?.x ?? 0);
    }
    let active = null;
    for (const line of inner.querySelectorAll("tbody tr")) {
      const y = table.getMeta(line.children[0])?.y;
      if (y === undefined || y >= this.rows.length) continue;
      this.#dressRow(line, y);
      if (y === this.current) active = line.id;
    }
    if (active) table.setAttribute("aria-activedescendant", active);
    else table.removeAttribute("aria-activedescendant");
  }

  #dressHeading(cell, column) {
    cell.setAttribute("role", "columnheader");
    cell.setAttribute("aria-colindex", column + 1);
    cell.classList.toggle("figure", figures(this.columns[column]));
    cell.tabIndex = this.tree ? -1 : 0;
    if (!this.tree)
      cell.setAttribute(
        "aria-sort",
        this.sorted === column ? (this.descending ? "descending" : "ascending") : "none",
      );
  }

  #dressRow(line, y) {
    const row = this.rows[y],
      {tree, columns} = this;
    line.setAttribute("role", "row");
    line.id = `${this.id}-${y}`;
    line.setAttribute("aria-rowindex", y + 2);
    line.setAttribute("aria-selected", String(y === this.current));
    line.className = y % 2 ? "odd" : "";
    if (tree) {
      const expanded = tree.expanded(row);
      line.setAttribute("aria-level", tree.level(row) + 1);
      if (expanded === null) line.removeAttribute("aria-expanded");
      else line.setAttribute("aria-expanded", String(expanded));
    }
    for (const cell of line.children) {
      const n = this.table.getMeta(cell)?.x ?? 0;
      cell.setAttribute("role", "gridcell");
      cell.setAttribute("aria-colindex", n + 1);
      cell.classList.toggle("figure", figures(columns[n]));
      cell.title = cell.textContent;
      cell.dataset.hue = columns[n]?.hue?.(row) || "";
      cell.classList.remove("branch", "open", "closed");
      if (tree && n === 0) {
        cell.classList.add("branch");
        cell.classList.toggle("open", tree.expanded(row) === true);
        cell.classList.toggle("closed", tree.expanded(row) === false);
        cell.style.setProperty("--level", Math.min(tree.level(row), 16));
      }
    }
  }

  #click(event) {
    const heading = event.target.closest("th[role=columnheader]");
    if (heading && !event.target.closest(".rt-column-resize"))
      return this.sortBy(this.table.getMeta(heading).x);
    const cell = event.target.closest("td"),
      y = cell && this.table.getMeta(cell)?.y;
    if (y === undefined || y === null || y >= this.rows.length) return undefined;
    return this.press(y, this.table.getMeta(cell).x === 0);
  }

  /** Opens a row, or the branch that it is, where its name is pressed. */
  press(y, isNamed) {
    this.current = y;
    const row = this.rows[y],
      expanded = this.tree?.expanded(row) ?? null;
    if (isNamed && expanded !== null) this.tree.toggle(row, !expanded);
    else this.onOpen(row);
    return this.draw();
  }

  /** Orders the rows by a column, again the other way round; by null, as they were given. */
  sortBy(column) {
    if (this.tree || !this.rows.length) return undefined;
    this.descending = this.sorted === column ? !this.descending : figures(this.columns[column]);
    this.sorted = column;
    this.rows = column === null ? this.unsorted : this.#inOrder(this.unsorted);
    this.current = 0;
    this.table.scrollTop = 0;
    this.#cap();
    return this.draw();
  }

  #inOrder(rows) {
    const {value, as = "text"} = this.columns[this.sorted],
      sign = this.descending ? -1 : 1;
    const keys = new Map(
      Array.from(rows, (row) => [row, as === "text" ? String(value(row) ?? "") : Number(value(row) ?? 0)]),
    );
    const order = as === "text" ? (a, b) => (a < b ? -1 : Number(a > b)) : (a, b) => a - b;
    return Array.from(rows).sort((a, b) => sign * order(keys.get(a), keys.get(b)));
  }

  #key(event) {
    const heading = event.target.closest("th[role=columnheader]");
    if (heading) {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        this.sortBy(this.table.getMeta(heading).x);
      }
      return;
    }
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const page = this.isCards ? PAGE : Math.max(1, Math.floor(this.table.clientHeight / 24) - 2),
      row = this.rows[this.current];
    const target = {
      ArrowDown: this.current + 1,
      ArrowUp: this.current - 1,
      PageDown: this.current + page,
      PageUp: this.current - page,
      Home: 0,
      End: this.rows.length - 1,
    }[event.key];
    if (target !== undefined) this.select(target);
    else if (event.key === "Enter" && row !== undefined) this.onOpen(row);
    else if (this.tree && (event.key === "ArrowRight" || event.key === "ArrowLeft"))
      this.#sideways(event.key === "ArrowRight", row);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Right opens a branch, or steps into it; left closes it, or steps out of it. */
  #sideways(right, row) {
    const {tree} = this,
      expanded = tree.expanded(row);
    if (expanded !== null && expanded !== right) return tree.toggle(row, right);
    if (right) return expanded ? this.select(this.current + 1) : undefined;
    let up = this.current - 1;
    while (up >= 0 && tree.level(this.rows[up]) >= tree.level(row)) up--;
    return up >= 0 ? this.select(up) : undefined;
  }

  #printed() {
    const headings = this.columns.map(({title}) => heading(title));
    const lines = Array.from(this.rows.slice(0, PRINTED_ROWS), (row) =>
      this.columns.map((column) => cell(this.text(column, row))),
    );
    const rest = this.rows.length - lines.length;
    return make(
      "div",
      {},
      tableOf(headings, lines, {kind: null, caption: this.label}),
      rest > 0 && make("p", {}, `${count(rest)} more rows are not printed.`),
    );
  }
}

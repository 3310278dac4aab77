// The rows of a grid that has little room: cards with all of their texts, one below the other, made as they are reached.

import {make} from "./elements.js";
import {counted} from "./texts.js";

export const MOST = 2000; // cards of a list
const MADE = 40; // at once
const NEAR = 400; // pixels before the end of those that are made

export class Cards {
  /** `grid` has the rows and their texts, and does what a press or a key asks for. */
  constructor(grid, onKey) {
    Object.assign(this, {grid, rows: null});
    const options = grid.columns.map(({title}, n) => make("option", {value: n}, title));
    this.select = make(
      "select",
      {onchange: ({target}) => grid.sortBy(target.value === "" ? null : Number(target.value))},
      make("option", {value: ""}, "as listed"),
      ...options,
    );
    this.order = make("label", {class: "order"}, "Order ", this.select);
    this.list = make("div", {class: "list", tabindex: 0, "aria-label": grid.label, onkeydown: onKey});
    this.list.addEventListener("click", (event) => this.#click(event));
    this.list.addEventListener("scroll", () => {
      const {scrollTop, clientHeight, scrollHeight} = this.list;
      if (scrollTop + clientHeight + NEAR > scrollHeight) this.#make(this.list.childElementCount + MADE);
    });
    this.rest = make("p", {class: "order"});
    this.element = make("div", {class: "cards"}, this.order, this.list, this.rest);
  }

  draw() {
    const {grid, list} = this,
      {current, rows, tree} = grid;
    if (this.rows !== rows) {
      const [made, top] = tree ? [list.childElementCount, list.scrollTop] : [0, 0];
      this.rows = rows;
      list.replaceChildren();
      this.#make(Math.max(MADE, made));
      list.scrollTop = top;
    }
    this.rest.hidden = rows.length <= MOST;
    this.rest.textContent = `and ${counted(rows.length - MOST, "more row")}, which a search finds`;
    this.order.hidden = tree !== null || rows.length < 2;
    this.select.value = grid.sorted ?? "";
    this.#make(current + 1);
    for (const card of list.querySelectorAll("[aria-selected=true]"))
      card.setAttribute("aria-selected", "false");
    const active = list.children[current];
    active?.setAttribute("aria-selected", "true");
    for (const [name, value] of [
      ["role", rows.length ? (tree ? "tree" : "listbox") : "group"],
      ["aria-activedescendant", active?.id],
    ])
      if (value) list.setAttribute(name, value);
      else list.removeAttribute(name);
  }

  /** Scrolls the list to the current card. */
  reveal() {
    const {list} = this,
      card = list.children[this.grid.current];
    if (!card) return;
    const end = card.offsetTop + card.offsetHeight;
    if (card.offsetTop < list.scrollTop) list.scrollTop = card.offsetTop;
    else if (end > list.scrollTop + list.clientHeight) list.scrollTop = end - list.clientHeight;
  }

  #make(count) {
    for (let n = this.list.childElementCount; n < Math.min(count, this.rows.length, MOST); n++)
      this.list.append(this.#card(n));
  }

  #card(n) {
    const {grid} = this,
      {columns, tree} = grid,
      row = this.rows[n];
    const name =
      columns.find(({isName}) => isName) ?? columns.find(({as = "text"}) => as === "text") ?? columns[0];
    const facts = columns
      .filter((column) => column !== name && !column.isWide)
      .map((column) => [column, grid.text(column, row)])
      .filter(([, text]) => text !== "");
    const branch = tree?.expanded(row) ?? null;
    return make(
      "div",
      {
        class: `card${tree ? " branch" : ""}${branch === null ? "" : branch ? " open" : " closed"}`,
        id: `${grid.id}-card${n}`,
        role: tree ? "treeitem" : "option",
        "aria-selected": "false",
        "aria-level": tree && tree.level(row) + 1,
        "aria-expanded": branch === null ? null : String(branch),
        "aria-setsize": tree ? null : this.rows.length,
        "aria-posinset": tree ? null : n + 1,
        style: tree ? {"--level": Math.min(tree.level(row), 16)} : {},
      },
      make("div", {class: "name"}, grid.text(name, row)),
      ...facts.flatMap(([{title, hue}, text]) => [
        make("span", {"data-hue": hue?.(row) || null}, make("small", {}, `${title} `), text),
        " ",
      ]),
    );
  }

  #click({target}) {
    const card = target.closest(".card");
    if (card) this.grid.press([...this.list.children].indexOf(card), target.closest(".name") !== null);
  }
}

// Section: texts of the file that nobody has accepted yet, and the review file, which commands read and write as well.

import {choice, heading, link, make, searchField, tableOf} from "./elements.js";
import {marked} from "./escapes.js";
import {acceptedIn, written} from "./review_file.js";
import {count, counted, shown} from "./texts.js";

const ROLES = [
  ["value", "Values"],
  ["key", "Keys"],
  ["name", "Names"],
];
const STATES = [
  ["open", "Not accepted"],
  ["all", "All"],
];
const AT_ONCE = 200; // rows that are drawn; "all shown" accepts no others
const DEEPEST = 8; // parts of a place after its record
const LONG = 600; // characters of a text that scrolls in a box of its own
const HEADINGS = [
  ["Accepted", "tick"],
  ["Text", null],
  ["Times", "figure"],
  ["First place", "place"],
];

/** `opening(record)` gives what opens a record in this page, or null. */
export function reviewSection({header, name, ...columns}, opening) {
  const keys = Object.keys(columns);
  const rows = columns.role.map((_, n) => Object.fromEntries(keys.map((key) => [key, columns[key][n]])));
  const review = new Review(header, name, rows, opening);
  return {nodes: review.nodes, ready: () => review.fill()};
}

const button = (text, onclick) => make("button", {type: "button", onclick}, text);

class Review {
  constructor(header, name, rows, opening) {
    Object.assign(this, {header, name, rows, opening, role: "all", most: AT_ONCE, isSaved: true});
    this.inOrder = ROLES.flatMap(([role]) => rows.filter((row) => row.role === role));
    this.state = this.left ? "open" : "all";
    this.search = searchField("Filter", () => this.fill());
    this.status = make("output", {"aria-live": "polite"});
    this.message = make("p", {class: "notice", role: "status", hidden: true});
    this.body = make("div");
    this.reviewer = make("input", {
      type: "text",
      autocomplete: "off",
      value: header.reviewer,
      oninput: () => this.#changed(),
    });
    this.chosen = make("input", {type: "file", accept: ".jsonl", hidden: true, onchange: () => this.#open()});
    this.all = button("Accept all shown", () => this.#acceptShown());
    const roles = [["all", "All roles"], ...ROLES.filter(([role]) => rows.some((row) => row.role === role))];
    this.nodes = [
      make(
        "p",
        {class: "hint"},
        "Texts of this file that are not PyTorch's own. Tick those that may be published, and save the file for ",
        make("code", {}, "--review"),
        ".",
      ),
      make(
        "div",
        {class: "bar"},
        choice("Accepted or not", STATES, this.state, (state) => this.fill({state})).element,
        choice("Role", roles, this.role, (role) => this.fill({role})).element,
        this.search.element,
      ),
      make(
        "div",
        {class: "bar"},
        this.all,
        make("label", {class: "field"}, "Reviewer", this.reviewer),
        button(`Save ${shown(name)}`, () => this.#save()),
        button("Open a review file", () => this.chosen.click()),
        this.chosen,
        this.status,
      ),
      this.message,
      this.body,
    ];
    window.addEventListener("beforeunload", (event) => this.isSaved || event.preventDefault());
  }

  /** How many rows are not accepted. */
  get left() {
    return this.rows.filter(({accepted}) => !accepted).length;
  }

  /** Draws the rows that the filters leave, by role. */
  fill(changes = {}) {
    Object.assign(this, {most: AT_ONCE}, changes);
    const wanted = this.search.input.value.toLowerCase();
    const has = (text) => text.toLowerCase().includes(wanted) || shown(text).toLowerCase().includes(wanted);
    const rows = this.inOrder.filter(
      ({role, accepted, text, table}) =>
        (this.role === "all" || this.role === role) &&
        (this.state === "all" || !accepted) &&
        (!wanted || has(text) || table?.odd.some(has)),
    );
    this.drawn = new Map(rows.slice(0, this.most).map((row) => [row, this.#box(row)]));
    const groups = ROLES.map(([role, title]) => [
      title,
      [...this.drawn.keys()].filter((row) => row.role === role),
    ]);
    this.body.replaceChildren(
      ...groups.filter(([, some]) => some.length).map(([title, some]) => this.#group(title, some)),
      ...this.#rest(rows.length),
    );
    this.#tell();
  }

  #rest(rows) {
    if (!rows)
      return [make("p", {}, this.left ? "No text is left by this filter." : "All texts are accepted.")];
    const more = rows - this.drawn.size;
    if (!more) return [];
    const words = `Show ${count(Math.min(more, AT_ONCE))} more`;
    const show = button(words, () => {
      const before = this.drawn.size;
      this.fill({most: this.most + AT_ONCE});
      [...this.drawn.values()].at(before)?.focus();
    });
    return [make("p", {}, `${counted(more, "more row")} not shown. `, show)];
  }

  #group(title, rows) {
    const caption = `${title}: ${count(rows.length)}`;
    const headings = HEADINGS.map(([text, kind]) => heading(text, kind));
    return tableOf(
      headings,
      rows.map((row) => this.#cells(row)),
      {kind: "plain review", caption},
    );
  }

  #box(row) {
    const box = make("input", {type: "checkbox", onchange: () => this.#accept(row, box.checked)});
    box.checked = row.accepted;
    return box;
  }

  #cells(row) {
    const id = `review-${this.rows.indexOf(row)}`;
    const words = make("code", {id, tabindex: row.text.length > LONG ? 0 : null}, ...marked(row.text));
    const box = this.drawn.get(row);
    box.setAttribute("aria-labelledby", id);
    const open = this.#opens(row.first);
    const cells = [
      [box],
      [
        words,
        row.template && make("p", {class: "hint"}, "N stands for any number"),
        row.table && listed(row.table),
      ],
      [row.count ? count(row.count) : make("span", {}, "not in this file")],
      [open ? link(shown(row.first), open) : shown(row.first)],
    ];
    return cells.map((cell, n) => make("td", {class: HEADINGS[n][1]}, ...cell.filter(Boolean)));
  }

  /** What opens a place in words, "record, place in it"; or null. */
  #opens(first) {
    for (let end = first.length, n = 0; end > 0 && n < DEEPEST; end = first.lastIndexOf(", ", end - 1), n++) {
      const open = this.opening(first.slice(0, end));
      if (open) return open;
    }
    return null;
  }

  #accept(row, accepted) {
    row.accepted = accepted;
    this.#changed();
  }

  #acceptShown() {
    for (const [row, box] of this.drawn) row.accepted = box.checked = true;
    this.#changed();
  }

  #changed() {
    this.isSaved = false;
    this.message.hidden = true;
    this.#tell();
  }

  #tell() {
    const {left, rows} = this;
    const texts = counted(rows.length, "text");
    const words = left ? `${count(left)} of ${texts} left` : `all of ${texts} accepted`;
    this.status.value = this.isSaved ? words : `${words}, not saved`;
    this.all.disabled = [...this.drawn.keys()].every(({accepted}) => accepted);
  }

  #say(words) {
    this.message.textContent = words;
    this.message.hidden = false;
  }

  #save() {
    const header = {...this.header, reviewer: this.reviewer.value.trim() || null};
    const address = URL.createObjectURL(new Blob([written(header, this.rows)]));
    make("a", {href: address, download: this.name}).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
    this.isSaved = true;
    this.#tell();
  }

  /** Takes over what a chosen file accepts. */
  async #open() {
    const [file] = this.chosen.files;
    this.chosen.value = "";
    if (!file) return;
    try {
      const {header, accepted, others} = await acceptedIn(await file.arrayBuffer(), this.rows);
      this.rows.forEach((row, n) => (row.accepted = accepted[n]));
      this.reviewer.value = header.reviewer ?? this.reviewer.value;
      this.isSaved = false;
      this.fill();
      const beside = others ? `, and ${counted(others, "text")} that this page does not list` : "";
      const some = accepted.filter(Boolean).length;
      this.#say(
        `${shown(file.name)} accepts ${count(some)} of ${counted(accepted.length, "text")}${beside}.`,
      );
    } catch (error) {
      this.#say(`${shown(file.name)}: ${shown(error.message)}.`);
    }
  }
}

/** A table from texts to numbers: how large it is, and the entries that are not like the others. */
function listed({entries, odd}) {
  const list = make("ul", {tabindex: 0, "aria-label": "Entries to look at"});
  list.append(...odd.map((entry) => make("li", {}, make("code", {}, ...marked(entry)))));
  return make(
    "div",
    {},
    make("p", {class: "hint"}, `a table of ${counted(entries, "entry", "entries")}`),
    odd.length ? list : "",
  );
}

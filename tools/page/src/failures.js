// The page of a log's failures: models side by side, causes with counts over time, and of the chosen one the text that
// PyTorch prints beside its line of source.

import {Editor} from "./editor.js";
import {bars, cell, heading, make, reveal, tableOf} from "./elements.js";
import {searchable} from "./lists.js";
import {FileLines} from "./positions.js";
import {state} from "./state.js";
import {count, counted, percent, shown, shownText} from "./texts.js";

const STEPS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588";
const COLUMNS = 16; // of a row's picture of counts over time
const MOST_MODELS = 200; // rows of the table of models
const sum = (numbers) => numbers.reduce((all, number) => all + number, 0);
const placeOf = ({file, line}, row) => (file[row] ? `${file[row]}:${line[row]}` : "no single line of source");
/** The model of a failure; where several explain it alike, nobody knows which of them. */
const oneOf = (names) => names.join(" or ");
const titleOf = (causes, row) => causes.message[row] || `(no message) ${placeOf(causes, row)}`;

/** The sections. Returns what informs the pair of source and generated code in view: none, for a page has no code. */
export function failuresSections({failures, models}, sections) {
  const {causes} = failures,
    add = (id, title, build) => sections.add(id, title, build, {tall: false});
  const times = causes.times.some(Boolean) ? causes.times : null;
  if (times)
    add("time", "Explained failures over time", () => ({
      nodes: overTime(together(times), sum(causes.count), failures),
    }));
  if (failures.models.length > 1)
    add("models", "Models side by side", () => ({nodes: [modelsTable(failures)]}));
  if (causes.count.length) add("causes", "Causes", () => causesSection(failures, models, times));
  else
    add("causes", "Causes", () => ({
      nodes: [
        make(
          "p",
          {},
          failures.unexplained ? "No failure of this log is explained." : "This log has no failures.",
        ),
      ],
    }));
  return () => null;
}

/** Sums of rows of equal length, null counting as nothing. */
function together(rows) {
  const known = rows.filter(Boolean);
  return known[0].map((_, n) => sum(known.map((row) => row[n])));
}

/** A row's counts in few columns of characters. */
function picture(counts) {
  const width = Math.ceil(counts.length / COLUMNS),
    columns = [];
  for (let n = 0; n < counts.length; n += width) columns.push(sum(counts.slice(n, n + width)));
  const most = Math.max(...columns);
  return columns
    .map((number) => (number ? STEPS[Math.ceil((number / most) * STEPS.length) - 1] : "\u00b7"))
    .join("");
}

/** Seconds in words, rounded. */
function lasting(seconds) {
  const [size, word] = [
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ].find(([least]) => seconds >= 2 * least || least === 1);
  return `${count(Math.round(seconds / size))} ${word}`;
}

function overTime(counts, all, {interval, span: [first, last]}) {
  const most = Math.max(...counts),
    timed = sum(counts),
    peak = `at most ${count(most)} in ${lasting(interval)}`;
  const bars = counts.map((number) =>
    make("span", {
      title: counted(number, "failure"),
      style: {height: `${most ? (100 * number) / most : 0}%`},
    }),
  );
  return [
    make(
      "div",
      {
        class: "times",
        role: "img",
        "aria-label": `${counted(timed, "failure")} from ${shown(first)} to ${shown(last)}, ${peak}`,
      },
      ...bars,
    ),
    make(
      "p",
      {class: "ends"},
      make("span", {}, shown(first)),
      make("span", {}, peak),
      make("span", {}, shown(last)),
    ),
    ...(timed < all
      ? [
          make(
            "p",
            {class: "hint"},
            `${count(timed)} of ${counted(all, "failure")}; other lines have no time`,
          ),
        ]
      : []),
  ];
}

function modelsTable({models, causes}) {
  const byNames = new Map(); // each failure once, with those that explain it alike in one row
  causes.models.forEach((numbers, row) => {
    const name = oneOf(numbers.map((number) => models[number]));
    const model = byNames.get(name) ?? {name, failures: 0, causes: 0, top: row, tops: 0};
    byNames.set(name, model);
    model.failures += causes.count[row];
    model.causes += 1;
    if (causes.count[row] === causes.count[model.top]) model.tops += 1; // they stand in the order of their counts
  });
  const rows = [...byNames.values()].sort((a, b) => b.failures - a.failures);
  const topOf = ({top, tops}) => {
    return tops > 1 ? `${count(tops)} causes, equally often` : shown(placeOf(causes, top));
  };
  const all = sum(causes.count),
    most = Math.max(1, ...rows.map(({failures}) => failures));
  const titles = ["Model", "Failures", "Share", "Causes", "Most frequent", "Compared"];
  const table = tableOf(
    titles.map((title, n) => heading(title, n && n < 4 ? "figure" : null)),
    rows
      .slice(0, MOST_MODELS)
      .map((model) => [
        cell(shown(model.name)),
        cell(count(model.failures), "figure"),
        cell(percent(model.failures, all), "figure"),
        cell(count(model.causes), "figure"),
        cell(topOf(model)),
        cell(bars({debug: model.failures}, most), "wide"),
      ]),
  );
  const rest = rows.length - MOST_MODELS;
  return rest > 0
    ? make("div", {}, table, make("p", {class: "hint"}, `and ${counted(rest, "further model")}`))
    : table;
}

function causesSection(failures, models, times) {
  const {causes} = failures,
    rows = causes.count.length;
  const names = (row) => oneOf(causes.models[row].map((number) => failures.models[number]));
  const detail = new Cause(failures, models);
  const open = (row) => {
    state.set({section: "causes", cause: String(row + 1)});
    detail.show(row);
    reveal(detail.element);
  };
  const list = searchable(
    "Causes",
    rows,
    [
      {title: "Failures", as: "number", value: (row) => causes.count[row]},
      {title: "Proven", value: (row) => causes.proven[row]},
      {title: "Message", value: (row) => titleOf(causes, row)},
      {title: "Place", value: (row) => placeOf(causes, row)},
      ...(times
        ? [
            {
              title: "Over time",
              value: (row) => sum(times[row]),
              words: (row) => picture(times[row]),
            },
            {
              title: "Last",
              as: "number",
              value: (row) => causes.seconds[row],
              words: (row) => causes.last[row],
            },
          ]
        : []),
      ...(failures.models.length > 1 ? [{title: "Model", value: names}] : []),
      {title: "Module or function", value: (row) => causes.where[row]},
    ],
    {onOpen: open, find: state.get("section") === "causes" ? (state.get("find") ?? "") : ""},
  );
  const follow = () => {
    const row = (state.number("cause") ?? 1) - 1;
    detail.show(row >= 0 && row < rows ? row : 0);
  };
  return {
    nodes: [list.element, make("p", {class: "hint"}, "Enter or a click opens a cause."), detail.element],
    ready: () => {
      list.fill();
      follow();
    },
    follow,
  };
}

/** What is shown of the chosen cause. */
class Cause {
  constructor(failures, models) {
    Object.assign(this, {failures, models, lines: null, row: -1});
    this.title = make("h3");
    this.facts = make("div");
    this.textTitle = make("span", {class: "only"});
    this.text = make("pre", {tabindex: 0, "aria-label": "The explanation"});
    this.textSide = make("div", {class: "side"}, make("div", {class: "picker"}, this.textTitle), this.text);
    this.fileName = make("span", {class: "only"});
    this.editor = new Editor({
      label: "Source of the model",
      touching: () => [],
      onPoint: () => {},
      wraps: true,
      numberOf: (line, {doc}) =>
        !this.lines || line > doc.lines
          ? String(line)
          : String(this.lines.number(doc.line(line).from, (position) => doc.lineAt(position).number)),
    });
    this.sourceSide = make(
      "div",
      {class: "side"},
      make("div", {class: "picker"}, this.fileName),
      this.editor.element,
    );
    this.element = make(
      "div",
      {class: "cause", "aria-live": "polite"},
      this.title,
      this.facts,
      make("div", {class: "pair"}, this.textSide, this.sourceSide),
    );
  }

  show(row) {
    if (row === this.row) return;
    this.row = row;
    const {causes, models, interval, span} = this.failures;
    this.title.textContent = shown(titleOf(causes, row));
    const where = make(
        "p",
        {},
        `${counted(causes.count[row], "failure")} at ${shown(placeOf(causes, row))}`,
        ...(causes.where[row] ? [", in ", make("code", {}, shown(causes.where[row]))] : []),
      ),
      of = make(
        "p",
        {class: "hint"},
        `Model: ${shown(oneOf(causes.models[row].map((number) => models[number])))} \u00b7 proven: ${causes.proven[row]}`,
      );
    const when =
      causes.first[row] &&
      ` \u00b7 ${shown(causes.first[row])}${causes.last[row] === causes.first[row] ? "" : ` to ${shown(causes.last[row])}`}`;
    if (when) of.append(when);
    const counts = causes.first[row] ? causes.times[row] : null;
    this.facts.replaceChildren(
      where,
      of,
      ...(counts ? overTime(counts, causes.count[row], {interval, span}) : []),
    );
    this.#showText(causes.excerpt[row], causes.marked[row]);
    this.#showSource(causes.link[row]);
  }

  /** Shows an explanation; `marked` are its first and last line that show the place that the title names. */
  #showText(text, marked) {
    this.textSide.hidden = !text;
    this.textTitle.textContent = text.includes("Traceback of TorchScript")
      ? "As PyTorch prints it"
      : "The explanation";
    const [first, last] = marked ?? [-1, -1];
    this.text.replaceChildren(
      ...shownText(text)
        .split("\n")
        .flatMap((line, n) => [n >= first && n <= last ? make("span", {class: "hit"}, line) : line, "\n"]),
    );
    const hit = this.text.querySelector(".hit");
    this.text.scrollTop = hit ? hit.offsetTop - this.text.offsetTop - this.text.clientHeight / 2 : 0;
  }

  #showSource(link) {
    const file = link && this.models[link[0]]?.sources?.files[link[1]];
    this.sourceSide.hidden = !file;
    if (!file) return;
    this.fileName.textContent = shown(file.name) || "(no name)";
    this.lines = new FileLines(file);
    this.editor.show(file.text, this.lines.gaps());
    const {from, to} = this.editor.line(link[2]);
    this.editor.mark([from, to]);
    this.editor.centre(from);
  }
}

// The page of failures: causes with their counts over time; each opens as PyTorch's text and at its line in the source.

import {make} from "./elements.js";
import {searchable} from "./lists.js";
import {Pair} from "./pair.js";
import {state} from "./state.js";
import {count, counted, shown, shownText} from "./texts.js";

/** Facts above the sections. */
export function failuresHead({models, causes, unexplained, notes}) {
  const facts = [["Failures", count(causes.count.reduce((sum, number) => sum + number, 0))], ["Causes", count(causes.count.length)],
    ["Models", models.length > 5 ? count(models.length) : models.map(shown).join(", ")], ["Not explained", unexplained ? counted(unexplained, "line") : null]];
  return [
    make("dl", {class: "facts"}, ...facts.filter(([, value]) => value).map(([title, value]) => make("div", {}, make("dt", {}, title), make("dd", {}, value)))),
    notes?.length && make("ul", {class: "notice"}, ...notes.map((note) => make("li", {}, shown(note)))),
  ].filter(Boolean);
}

/** The sections; `add(id, title, build)`. */
export function failuresSections({failures, models}, sections) {
  const {causes} = failures, pairs = new Map();
  const detail = make("div", {class: "detail", "aria-live": "polite"}, make("p", {class: "hint"}, "Choose a cause to see its text and its line."));
  const sources = make("div");

  /** The pair of one model, made once. */
  function pairOf(number) {
    if (!pairs.has(number)) pairs.set(number, new Pair(models[number].sources));
    return pairs.get(number);
  }

  function open(row) {
    state.set({cause: String(row + 1)});
    const concerned = causes.models[row] ?? [], times = causes.times?.[row];
    detail.replaceChildren(
      make("h3", {}, `${counted(causes.count[row], "failure")}: ${shown(causes.message[row])}`),
      make("p", {class: "hint"}, [causes.where[row], causes.first[row] && `first ${causes.first[row]}`, causes.last[row] && `last ${causes.last[row]}`, concerned.length && failures.models.length > 1 && `in ${concerned.map((number) => failures.models[number]).join(", ")}`].filter(Boolean).map(shown).join(" \u00b7 ")),
      ...(times?.length > 1 ? [overTime(times)] : []),
      make("pre", {class: "excerpt", tabindex: 0, "aria-label": "What PyTorch prints"}, shownText(causes.excerpt[row])));
    const link = causes.link?.[row];
    if (!link || !models?.[link[0]]?.sources) { sources.replaceChildren(); return; }
    const pair = pairOf(link[0]);
    sources.replaceChildren(...(failures.models.length > 1 ? [make("h3", {}, shown(failures.models[link[0]]))] : []), pair.element);
    pair.showFile(link[1], link[2]);
  }

  sections.add("causes", "Causes", () => {
    const list = searchable("Causes of failures", causes.count.length, [
      {title: "Count", as: "number", value: (row) => causes.count[row]},
      {title: "File", value: (row) => causes.file[row]},
      {title: "Line", as: "number", value: (row) => causes.line[row], words: (row) => String(causes.line[row] ?? "")},
      {title: "In", value: (row) => causes.where[row]}, {title: "Message", value: (row) => causes.message[row]},
      ...(failures.models.length > 1 ? [{title: "Models", as: "number", value: (row) => causes.models[row].length}] : []),
      ...(causes.first?.some(Boolean) ? [{title: "First", value: (row) => causes.first[row]}, {title: "Last", value: (row) => causes.last[row]}] : []),
    ], {onOpen: open});
    const follow = () => { const chosen = (state.number("cause") ?? 1) - 1; if (chosen < causes.count.length) { open(chosen); list.grid.select(list.grid.rows.indexOf(chosen)); } };
    return {nodes: causes.count.length ? [list.element, detail, sources] : [make("p", {}, "No failure of these models is in this log.")], ready: () => { if (causes.count.length) list.fill().then(follow); }, follow};
  });
  return () => [...pairs.values()].find(({element}) => element.isConnected) ?? null;
}

/** Counts in equal intervals, as bars. */
function overTime(counts) {
  const most = Math.max(...counts, 1), label = `Over time: ${counts.join(", ")}`;
  return make("div", {class: "times", role: "img", "aria-label": label, title: label}, ...counts.map((number) => make("span", {style: {height: `${Math.max(number ? 6 : 1, (100 * number) / most)}%`}})));
}

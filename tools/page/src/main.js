// The page: what the data has is drawn, what it lacks is not.

import {changesSection} from "./changes.js";
import {make} from "./elements.js";
import {failuresSections} from "./failures.js";
import {folderSections} from "./folder.js";
import {listenToKeys} from "./keys.js";
import {findingsSection, handlesSection, tableSection} from "./lists.js";
import {modulesSection} from "./modules.js";
import {Pair} from "./pair.js";
import {reviewSection} from "./review.js";
import {Sections} from "./sections.js";
import {sizesSection} from "./sizes.js";
import {linkTo, state} from "./state.js";
import {shown} from "./texts.js";
import {unpack} from "./unpack.js";
import {valuesSection} from "./values.js";

const main = document.getElementById("main"),
  top = document.getElementById("top");
const sections = new Sections(main);
let pair = null;
let currentPair = () => pair;

/** Opens the pair of source and generated code at a position of a record. */
const goToRecord = (record, at) => {
  sections.open("source");
  pair?.showRecord(record, at, {pin: true});
};
/** What a row of a table leads to: a line of a file, or a position in a record, which leads to a line itself. */
const goToLink = ([file, at, record = -1, place = 0]) => {
  if (record >= 0) return goToRecord(record, place);
  sections.open("source");
  pair?.showFile(file, at, {pin: true});
};

function sourceSection(data) {
  pair = new Pair(data, {onPin: (changes) => state.set({section: "source", ...changes})});
  const follow = () => {
    const record = pair.recordNamed(state.get("record")),
      file = pair.fileNamed(state.get("file")),
      at = state.number("at") ?? 0;
    if (record >= 0) pair.showRecord(record, at);
    else if (file >= 0) pair.showFile(file, at);
    else if (pair.record < 0 && pair.file < 0) pair.open();
  };
  return {nodes: [pair.element], ready: follow, follow};
}

function archiveSections(data) {
  const add = (id, title, build) => sections.add(id, title, build);
  const numbers = new Map(data.sources?.records.map(({name}, number) => [name, number]));
  const sized = new Set(data.sizes?.record);
  const opening = (name) => {
    const number = numbers.get(name) ?? numbers.get(name.replace(/\.debug_pkl$/, ""));
    if (number !== undefined) return () => goToRecord(number, 0);
    return name && sized.has(name) ? () => location.assign(linkTo({section: "sizes", find: name})) : null;
  };
  if (data.review) add("review", "Review", () => reviewSection(data.review, opening));
  if (data.sizes)
    add("sizes", data.sizes.old ? "Where the bytes are, and were" : "Where the bytes are", () =>
      sizesSection(data.sizes),
    );
  if (data.changes) add("changes", "What changed in source and code", () => changesSection(data.changes));
  if (data.modules?.path.length) add("modules", "Modules", () => modulesSection(data.modules, goToRecord));
  if (data.sources?.records.length || data.sources?.files.length)
    add("source", data.sources.records.length ? "Source and generated code" : "Source", () =>
      sourceSection(data.sources),
    );
  if (data.values?.line.length) add("values", data.values.title, () => valuesSection(data.values, goToLink));
  if (data.handles?.handle.length)
    add("handles", "Debug handles", () => handlesSection(data.handles, goToRecord));
  for (const [number, table] of (data.tables ?? []).entries())
    if (table.rows[0]?.length) add(`table${number}`, table.title, () => tableSection(table, goToLink));
  if (data.findings) add("findings", "Findings", () => findingsSection(data.findings, opening));
}

function navigation(openHelp) {
  const links = sections.list.map(({id, title}, n) =>
    make(
      "li",
      {},
      make(
        "a",
        {
          href: linkTo({section: id}),
          onclick: (event) => {
            event.preventDefault();
            state.set({section: id});
            sections.open(id);
          },
        },
        make("kbd", {"aria-hidden": "true"}, String(n + 1)),
        ` ${shown(title)}`,
      ),
    ),
  );
  return make(
    "nav",
    {class: "sections", "aria-label": "Sections"},
    make("ul", {}, ...links),
    make("button", {type: "button", onclick: openHelp}, make("kbd", {"aria-hidden": "true"}, "?"), " Keys"),
  );
}

function draw(data) {
  if (data.folder) folderSections(data.folder, sections);
  else if (data.failures) currentPair = failuresSections(data, sections);
  else archiveSections(data);
  if (data.left_out?.length)
    main.append(
      make(
        "aside",
        {class: "notice", "aria-label": "Left out"},
        make("ul", {}, ...data.left_out.map((text) => make("li", {}, shown(text)))),
      ),
    );
  const openHelp = listenToKeys({
    sections: () => sections.list,
    current: () => sections.current(),
    open: (id) => {
      state.set({section: id});
      sections.open(id);
    },
    pair: () => currentPair(),
  });
  const nav = navigation(openHelp);
  top.after(nav);
  const measured = () => document.documentElement.style.setProperty("--top", `${nav.offsetHeight}px`);
  new ResizeObserver(measured).observe(nav); // what is jumped to stands below it
  state.listen(() => {
    for (const section of sections.list) section.built?.follow?.();
    if (state.get("section")) sections.open(state.get("section"));
  });
  if (state.get("section")) sections.open(state.get("section"), {focus: false});
  document.documentElement.dataset.ready = "";
}

unpack(document.getElementById("data"))
  .then(draw)
  .catch((error) => {
    main.replaceChildren(
      make("p", {class: "notice"}, `This page cannot be drawn here: ${shown(error.message)}`),
    );
    throw error;
  });

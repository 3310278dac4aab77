// One of many names: a list while they are few, a field that suggests when a list would be too long to draw.

import {make} from "./elements.js";
import {shown} from "./texts.js";

const FEW = 100,
  SUGGESTED = 50;
let pickers = 0;

/** `onPick(index)`; `show(index)` says what is picked. */
export function picker(label, names, onPick) {
  if (names.length === 1) {
    const only = make("span", {class: "only"}, shown(names[0]));
    return {element: make("div", {class: "picker"}, only), show: () => {}};
  }
  return names.length <= FEW ? list(label, names, onPick) : field(label, names, onPick);
}

function list(label, names, onPick) {
  const select = make(
    "select",
    {"aria-label": label, onchange: () => onPick(Number(select.value))},
    ...names.map((name, n) => make("option", {value: n}, shown(name))),
  );
  return {
    element: make("div", {class: "picker"}, select),
    show: (index) => {
      select.value = String(index);
    },
  };
}

function field(label, names, onPick) {
  const id = `names${pickers++}`,
    suggestions = make("datalist", {id});
  const suggest = () => {
    const wanted = input.value.toLowerCase(),
      matching = [];
    for (const name of names)
      if (name.toLowerCase().includes(wanted) && matching.push(name) === SUGGESTED) break;
    suggestions.replaceChildren(...matching.map((name) => make("option", {value: name})));
  };
  const input = make("input", {
    type: "text",
    list: id,
    "aria-label": `${label}, one of ${names.length}`,
    autocomplete: "off",
    spellcheck: "false",
    oninput: suggest,
    onfocus: () => {
      input.select();
      suggest();
    },
    onchange: () => {
      const index = names.indexOf(input.value);
      if (index >= 0) onPick(index);
    },
  });
  return {
    element: make("div", {class: "picker"}, input, suggestions),
    show: (index) => {
      input.value = shown(names[index]);
    },
  };
}

// Elements out of data. Strings become text and attributes, never markup.

/** An element; `on…` attributes are listeners, `style` an object of properties (a policy forbids the attribute). */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style")
      for (const property of Object.keys(value)) element.style.setProperty(property, value[property]);
    else if (value !== undefined && value !== null && value !== false)
      element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** A button that looks like a link. */
export const link = (text, onclick) => make("button", {type: "button", class: "link", onclick}, text);

/** A few words in a colour: `kind` is error, warning, note or well. */
export const badge = (kind, words) => make("span", {class: `badge ${kind}`}, words);

/** A fact of a list of class `facts`. */
export const fact = (title, ...value) => make("div", {}, make("dt", {}, title), make("dd", {}, ...value));

export const heading = (title, kind = null) => make("th", {scope: "col", class: kind}, title);

export const cell = (content, kind = null) => make("td", {class: kind}, content);

/** A table of headings and of rows of cells, which have their headings beside them in a narrow window. */
export function tableOf(headings, rows, {kind = "plain", caption = null} = {}) {
  const lines = rows.map((cells) => make("tr", {}, ...cells));
  for (const cells of rows)
    for (const [n, cell] of cells.entries()) cell.dataset.title = n ? headings[n].textContent.trim() : "";
  return make(
    "table",
    {class: kind},
    caption && make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...headings)),
    make("tbody", {}, ...lines),
  );
}

/** Parts of `most`, by their classes, as lengths side by side. */
export function bars(parts, most) {
  const bar = ([kind, part]) => make("span", {class: kind, style: {width: `${(100 * part) / most}%`}});
  return make("span", {class: "bars", "aria-hidden": "true"}, ...Object.entries(parts).map(bar));
}

/** Buttons of which one is pressed: `options` are [value, label] pairs. */
export function choice(label, options, value, onChoose) {
  const buttons = options.map(([option, text]) =>
    make(
      "button",
      {
        type: "button",
        "aria-pressed": String(option === value),
        onclick: () => {
          press(option);
          onChoose(option);
        },
      },
      text,
    ),
  );
  const press = (chosen) =>
    buttons.forEach((button, n) => button.setAttribute("aria-pressed", String(options[n][0] === chosen)));
  const element = make("div", {class: "choice", role: "group", "aria-label": label}, ...buttons);
  return {element, press};
}

/** A field to search in; `onSearch` is called when typing pauses. `/` jumps to the field of the section in view. */
export function searchField(label, onSearch) {
  let timer;
  const output = make("output", {"aria-live": "polite"});
  const input = make("input", {
    type: "search",
    class: "search",
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => {
      clearTimeout(timer);
      timer = setTimeout(() => onSearch(input.value), 80);
    },
  });
  return {
    element: make("div", {class: "field"}, make("label", {}, label, " ", input), output),
    input,
    output,
  };
}

/** Scrolls to what was chosen in a table, if that is not in view. */
export const reveal = (element) => element.scrollIntoView({block: "nearest", behavior: "instant"});

// What is shown, in the fragment of the URL: section, in (a part of the tree of sizes), module, record, file, at, find, finding, cause, row (a file of a folder).

let parameters = new URLSearchParams(location.hash.slice(1));
const listeners = [];

export const state = {
  get: (key) => parameters.get(key),
  number: (key) => (/^\d{1,15}$/.test(parameters.get(key) ?? "") ? Number(parameters.get(key)) : null),
  /** Changes some keys; null takes one out. `step` is one that the browser's Back returns from. */
  set(changes, {step = false} = {}) {
    for (const [key, value] of Object.entries(changes)) {
      if (value === null || value === "") parameters.delete(key);
      else parameters.set(key, value);
    }
    const address = "#" + parameters;
    if (address !== location.hash) history[step ? "pushState" : "replaceState"](null, "", address);
  },
  /** `listener` is called whenever the fragment changes from outside: links, Back, another address. */
  listen: (listener) => listeners.push(listener),
};

/** The fragment of a link to what `changes` say. */
export const linkTo = (changes) => "#" + new URLSearchParams(changes);

window.addEventListener("hashchange", () => {
  parameters = new URLSearchParams(location.hash.slice(1));
  for (const listener of listeners) listener();
});
window.addEventListener("popstate", () => {
  parameters = new URLSearchParams(location.hash.slice(1));
});

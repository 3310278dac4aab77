// Sections are made when they are reached: by scrolling, by a link, by a key, by printing.

import {make} from "./elements.js";
import {beforePrinting} from "./print.js";
import {shown} from "./texts.js";

const SETTLED = 500; // milliseconds

export class Sections {
  constructor(main) {
    this.main = main;
    this.list = [];
    this.observer = new IntersectionObserver(
      (entries) => {
        for (const entry of entries)
          if (entry.isIntersecting) this.list.find(({element}) => element === entry.target)?.reach();
      },
      {rootMargin: "150px"},
    );
    beforePrinting(() => this.list.forEach((section) => section.reach()));
  }

  /** `build()` gives {nodes, ready?, follow?}; `title` stands before that. */
  add(id, title, build, {tall = true} = {}) {
    const heading = make("h2", {id: `${id}-title`, tabindex: -1}, shown(title));
    const element = make(
      "section",
      {id, "aria-labelledby": `${id}-title`, class: tall ? "waiting" : ""},
      heading,
    );
    const section = {
      id,
      title,
      element,
      heading,
      built: null,
      reach: () => {
        if (section.built) return section.built;
        this.observer.unobserve(element);
        element.classList.remove("waiting");
        section.built = build();
        element.append(...section.built.nodes);
        section.built.ready?.();
        return section.built;
      },
    };
    this.list.push(section);
    this.main.append(element);
    this.observer.observe(element);
    return section;
  }

  get(id) {
    return this.list.find((section) => section.id === id);
  }

  /** Makes a section, scrolls to it, and gives it the focus. */
  open(id, {focus = true} = {}) {
    const section = this.get(id);
    if (!section) return null;
    section.reach();
    const scroll = () => section.element.scrollIntoView({block: "start", behavior: "instant"});
    scroll();
    const watcher = new ResizeObserver(scroll); // what comes into view above it is made meanwhile
    watcher.observe(this.main);
    setTimeout(() => watcher.disconnect(), SETTLED);
    if (focus) section.heading.focus({preventScroll: true});
    return section.built;
  }

  /** The section that has the focus, or else the one at the top of the window. */
  current() {
    const focused = this.list.find(({element}) => element.contains(document.activeElement));
    return (
      focused ??
      this.list.findLast(({element}) => element.getBoundingClientRect().top < window.innerHeight / 2) ??
      this.list[0]
    );
  }
}

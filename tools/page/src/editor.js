// A text of any length, Python or C++, to read: line numbers, shades of its ranges, marks of what is pointed at.

import {LRLanguage, syntaxHighlighting} from "@codemirror/language";
import {EditorState, RangeSetBuilder, StateEffect, StateField} from "@codemirror/state";
import {
  Decoration,
  EditorView,
  ViewPlugin,
  drawSelection,
  highlightSpecialChars,
  lineNumbers,
} from "@codemirror/view";
import {classHighlighter} from "@lezer/highlight";
import {parser} from "@lezer/python";
import {INVISIBLE, escaped} from "./texts.js";
import {make} from "./elements.js";

const python = LRLanguage.define({name: "python", parser});
const SHADES = Array.from({length: 5}, (_, n) => Decoration.mark({class: `shade${n}`}));
const [HERE, ALSO] = ["here", "also"].map((name) => Decoration.mark({class: name}));
const GAP = Decoration.line({
  class: "gap",
  attributes: {title: "Lines are missing above: no range of the archive touches them"},
});
const setMarks = StateEffect.define();
const setGaps = StateEffect.define();

const decorations = (effect) =>
  StateField.define({
    create: () => Decoration.none,
    update: (value, {effects, docChanged}) =>
      effects.reduce(
        (now, change) => (change.is(effect) ? change.value : now),
        docChanged ? Decoration.none : value,
      ),
    provide: (field) => EditorView.decorations.from(field),
  });

/** Shades what `touching(from, to)` gives, in view alone; a range has the same shade on both sides. */
const shades = (touching) =>
  ViewPlugin.fromClass(
    class {
      constructor(view) {
        this.decorations = this.build(view);
      }
      update({docChanged, viewportChanged, view}) {
        if (docChanged || viewportChanged) this.decorations = this.build(view);
      }
      build(view) {
        const builder = new RangeSetBuilder();
        for (const {from, to} of view.visibleRanges)
          for (const [start, end, shade] of touching(from, to))
            if (end > start) builder.add(start, end, SHADES[shade % SHADES.length]);
        return builder.finish();
      }
    },
    {decorations: (plugin) => plugin.decorations},
  );

const escapes = highlightSpecialChars({
  specialChars: INVISIBLE,
  render: (code) => make("span", {class: "escape"}, escaped(code)),
});

export class Editor {
  /**
   * `touching(from, to)` gives [from, to, shade]; `numberOf(line, state)` a line's number; `onPoint(position, how)` is told
   * of the pointer ("hover"), of a click or the caret ("caret"), and of a pointer that has left (null); `isPython`: its
   * words have colours; `wraps`: its lines are folded.
   */
  constructor({label, touching, numberOf, onPoint, isPython = true, wraps = false}) {
    this.quiet = false;
    const place = (event, view) => view.posAtCoords({x: event.clientX, y: event.clientY});
    this.view = new EditorView({
      state: EditorState.create({
        extensions: [
          EditorState.readOnly.of(true),
          EditorState.lineSeparator.of("\n"), // "\r\n" would be one position, and two in the archive
          EditorView.cspNonce.of(document.querySelector("style").nonce),
          EditorView.contentAttributes.of({
            "aria-label": label,
            "aria-readonly": "true",
            tabindex: "0",
            inputmode: "none",
          }),
          lineNumbers({formatNumber: numberOf}),
          ...(isPython ? [python, syntaxHighlighting(classHighlighter)] : []),
          ...(wraps ? [EditorView.lineWrapping] : []),
          escapes,
          drawSelection(),
          shades(touching),
          decorations(setMarks),
          decorations(setGaps),
          EditorView.domEventHandlers({
            mousemove: (event, view) => {
              if (!event.buttons) onPoint(place(event, view), "hover");
            },
            mouseleave: () => onPoint(null, "hover"),
          }),
          EditorView.updateListener.of((update) => {
            if (update.selectionSet && !update.docChanged && !this.quiet)
              onPoint(update.state.selection.main.head, "caret");
          }),
        ],
      }),
    });
    this.element = this.view.dom;
  }

  show(text, gaps = []) {
    const {view} = this;
    this.quiet = true;
    view.dispatch({
      changes: {from: 0, to: view.state.doc.length, insert: view.state.toText(text)},
      selection: {anchor: 0},
    });
    const starts = gaps
      .filter((position) => position <= view.state.doc.length)
      .map((position) => GAP.range(view.state.doc.lineAt(position).from));
    view.dispatch({effects: setGaps.of(Decoration.set(starts, true))});
    this.quiet = false;
  }

  /**
   * Marks `here`, one range, and `also`, others. `scroll` brings the first into view: "page" moves the page, too, "box" the
   * editor's text alone; `gently` only what is out of view.
   */
  mark(here, also = [], {scroll = null, gently = false} = {}) {
    const marks = [...(here ? [[...here, HERE]] : []), ...also.map((range) => [...range, ALSO])].filter(
      ([from, to]) => to > from,
    );
    const effects = [
      setMarks.of(
        Decoration.set(
          marks.map(([from, to, mark]) => mark.range(from, to)),
          true,
        ),
      ),
    ];
    if (scroll === "page" && here) effects.push(EditorView.scrollIntoView(here[0], {y: "center"}));
    this.view.dispatch({effects});
    if (scroll === "box" && here) this.centre(here[0], {gently});
  }

  /** Puts the caret somewhere, with the `length` units after it selected. */
  setCaret(position, length = 0) {
    const {length: end} = this.view.state.doc;
    this.quiet = true;
    this.view.dispatch({
      selection: {anchor: Math.min(position + length, end), head: Math.min(position, end)},
    });
    this.quiet = false;
  }

  /** Selects a stretch and scrolls to it, whatever is marked. */
  reveal(position, length) {
    this.setCaret(position, length);
    this.view.dispatch({effects: EditorView.scrollIntoView(position, {y: "center"})});
  }

  /**
   * Scrolls to a position within its own view, `gently` only if it is out of that; the page stays where it is. Once more
   * in the next frame: where lines are is estimated until they have been drawn.
   */
  centre(position, {gently = false, again = true} = {}) {
    if (again) requestAnimationFrame(() => this.centre(position, {gently: true, again: false}));
    this.view.requestMeasure({
      read: (view) => {
        const {scrollTop, scrollLeft, clientHeight, clientWidth} = view.scrollDOM;
        const {top, bottom, from} = view.lineBlockAt(position);
        const [width, x] = [
          clientWidth - view.contentDOM.offsetLeft,
          (position - from) * view.defaultCharacterWidth,
        ];
        const isSeen = gently && top >= scrollTop && bottom <= scrollTop + clientHeight;
        const isBeside = x >= scrollLeft && x <= scrollLeft + width;
        return [isSeen ? scrollTop : top - clientHeight / 2, isBeside ? scrollLeft : x - width / 2];
      },
      write: ([top, left], {scrollDOM}) => {
        scrollDOM.scrollTop = top;
        scrollDOM.scrollLeft = left;
      },
    });
  }

  lineOf(position) {
    return this.view.state.doc.lineAt(Math.min(position, this.view.state.doc.length)).number;
  }

  line(position) {
    return this.view.state.doc.lineAt(Math.min(position, this.view.state.doc.length));
  }
}

// Section: the model's source, left, and the code generated of it, right; each position marked on both sides.

import {Editor} from "./editor.js";
import {link, make} from "./elements.js";
import {finder} from "./find.js";
import {picker} from "./picker.js";
import {FileLines, FileRanges, RecordPositions, innermost} from "./positions.js";
import {count, counted, shown} from "./texts.js";

const LISTED = 50; // places in other records
const RESTING = 150; // milliseconds
const FOREIGN = /site-packages|dist-packages|\/torch\/|^</; // PyTorch's own files, and code that it made, as <eval_with_key>.7
const shadeOf = (from, length) => from * 7 + length * 3;

export class Pair {
  /** `onPin({record, at} or {file, at})` is told what is marked for good, for the URL. */
  constructor({files, records}, {onPin = () => {}} = {}) {
    this.onPin = onPin;
    this.files = files.map((file) => new FileLines(file));
    this.records = records.map((record) => new RecordPositions(record));
    this.record = -1;
    this.file = -1;
    this.fileRanges = new Map();
    this.pinned = null;
    this.hovered = "";
    this.isCompiled = this.records.some(({name}) => name.endsWith(".cpp"));
    this.left = new Editor({
      label: "Source of the model",
      touching: (from, to) => this.#leftTouching(from, to),
      numberOf: (line, {doc}) =>
        this.file < 0 || line > doc.lines ? String(line) : String(this.#lineNumber(doc.line(line).from, doc)),
      onPoint: (position, how) => this.#point("file", position, how),
    });
    this.right = new Editor({
      label: "Generated code",
      touching: (from, to) => this.#rightTouching(from, to),
      numberOf: String,
      isPython: !this.isCompiled,
      onPoint: (position, how) => this.#point("record", position, how),
    });
    this.filePicker = picker(
      "Source file",
      this.files.map(({name}) => name),
      (file) => this.showFile(file, 0, {pin: true}),
    );
    this.recordPicker = picker(
      "Record",
      this.records.map(({name}) => name),
      (record) => this.showRecord(record, this.#firstMarked(record), {pin: true}),
    );
    this.where = make("output", {class: "where", "aria-live": "polite"});
    this.steps = make(
      "span",
      {class: "steps", hidden: true},
      make(
        "button",
        {type: "button", "aria-label": "Previous of the marked ranges", onclick: () => this.stepMarked(-1)},
        "[",
      ),
      make("span", {}),
      make(
        "button",
        {type: "button", "aria-label": "Next of the marked ranges", onclick: () => this.stepMarked(1)},
        "]",
      ),
    );
    this.elsewhere = make("details", {class: "elsewhere", hidden: true}, make("summary"), make("ul"));
    const both = files.length > 0 && records.length > 0;
    this.element = make(
      "div",
      {class: both ? "pairbox" : "pairbox single"},
      both &&
        make(
          "p",
          {class: "hint"},
          "Point at code on either side: the other side shows where it comes from, or what became of it.",
        ),
      make(
        "div",
        {class: "bar"},
        finder(
          "Find in all texts",
          [...this.files, ...this.records].map(({text}) => text),
          () => this.files.length + this.record,
          (match) => this.#found(match),
        ),
      ),
      make(
        "div",
        {class: "pair"},
        files.length > 0 && make("div", {class: "side"}, this.filePicker.element, this.left.element),
        records.length > 0 && make("div", {class: "side"}, this.recordPicker.element, this.right.element),
      ),
      make("div", {class: "status"}, this.where, this.steps, this.elsewhere),
    );
  }

  /** Whether the files are lines that stack traces name; nodes may come from one that no record comes from. */
  get areLines() {
    return this.isCompiled || !this.records.length;
  }

  /** The record that has most to show: of the model's own files, if any are not PyTorch's. */
  get best() {
    const foreign = this.files.map(({name}) => FOREIGN.test(name));
    const worth = (record) =>
      record.file.reduce((sum, file) => sum + (file < 0 ? 0 : foreign[file] ? 1 : 1000), 0);
    return this.records.reduce(
      (best, record, n) => (worth(record) > worth(this.records[best]) ? n : best),
      0,
    );
  }

  #firstMarked(number) {
    const record = this.records[number],
      row = record.file.findIndex((file) => file >= 0);
    return row < 0 ? 0 : record.at[row];
  }

  /** What is shown first, when the page is read up to here. */
  open() {
    const own = this.files.findIndex(({name}) => !FOREIGN.test(name));
    if (this.records.length) this.showRecord(this.best, this.#firstMarked(this.best), {still: true});
    else this.showFile(Math.max(0, own), 0, {still: true});
  }

  recordNamed(name) {
    return this.records.findIndex((record) => record.name === name);
  }

  fileNamed(name) {
    return this.files.findIndex((file) => file.name === name);
  }

  /** Shows a record, marks what stands at a position of it, and where that comes from; `still` leaves the page in its place. */
  showRecord(number, position = 0, {pin = false, still = false} = {}) {
    if (!this.records[number]) return;
    this.#loadRecord(number);
    this.right.setCaret(position);
    this.#mark(this.#ofRecord(position), {scroll: "both", pin, still});
  }

  /** Shows a source file, marks the smallest range around a position, and what became of it. */
  showFile(number, position = 0, {pin = false, still = false} = {}) {
    if (!this.files[number]) return;
    this.#loadFile(number);
    this.left.setCaret(position);
    this.#mark(this.#ofFile(position), {scroll: "both", pin, still});
  }

  #found([number, position, length]) {
    const record = number - this.files.length;
    if (record >= 0) this.showRecord(record, position, {pin: true});
    else this.showFile(number, position, {pin: true});
    (record >= 0 ? this.right : this.left).reveal(position, length);
  }

  #loadRecord(number) {
    if (number === this.record) return;
    this.record = number;
    this.right.show(this.records[number].text);
    this.recordPicker.show(number);
  }

  #loadFile(number) {
    if (number === this.file) return;
    this.file = number;
    this.left.show(this.files[number].text, this.files[number].gaps());
    this.filePicker.show(number);
  }

  #rangesOf(file) {
    if (!this.fileRanges.has(file)) {
      if (this.fileRanges.size > 3) this.fileRanges.clear();
      this.fileRanges.set(file, new FileRanges(this.records, file));
    }
    return this.fileRanges.get(file);
  }

  *#leftTouching(from, to) {
    if (this.file < 0) return;
    for (const [start, end, range] of innermost(this.#rangesOf(this.file).touching(from, to)))
      yield [start, end, shadeOf(range.from, range.to - range.from)];
  }

  *#rightTouching(from, to) {
    if (this.record < 0) return;
    const record = this.records[this.record];
    for (const [start, end, row] of record.touching(from, to))
      yield [start, end, shadeOf(record.from[row], record.length[row])];
  }

  #lineNumber(start, doc = this.left.view.state.doc) {
    return this.files[this.file].number(
      start,
      (position) => doc.lineAt(Math.min(position, doc.length)).number,
    );
  }

  /** What a position of the record means: {record, row, file, from, to}. */
  #ofRecord(position) {
    const record = this.records[this.record],
      row = record.rowAt(position);
    if (!record.hasSource(row)) return {side: "record", position, record: this.record, row, file: -1};
    return {
      side: "record",
      position,
      record: this.record,
      row,
      file: record.file[row],
      from: record.from[row],
      to: record.from[row] + record.length[row],
    };
  }

  #ofFile(position) {
    const range = this.#rangesOf(this.file).smallestAt(position);
    if (!range) return {side: "file", position, file: this.file, row: -1, record: -1};
    const [record, row] = range.places.find(([number]) => number === this.record) ?? range.places[0];
    return {side: "file", position, record, row, file: this.file, from: range.from, to: range.to};
  }

  /** A caret pins; a pointer that passes marks what is loaded, and one that rests loads and scrolls the other side. */
  #point(side, position, how) {
    const key = `${side} ${position} ${how}`;
    if (key === this.hovered) return;
    this.hovered = key;
    clearTimeout(this.resting);
    if (position === null) {
      if (this.pinned) this.#mark(this.pinned, {});
      return;
    }
    const meaning = side === "record" ? this.#ofRecord(position) : this.#ofFile(position);
    const other = side === "record" ? "file" : "record";
    if (how === "caret") {
      this.#mark(meaning, {scroll: other, pin: true, still: true});
      return;
    }
    if (meaning.row < 0 || meaning.file < 0) return;
    if (this.#isLoaded(meaning)) this.#mark(meaning, {});
    this.resting = setTimeout(() => this.#mark(meaning, {scroll: other, gently: true, still: true}), RESTING);
  }

  #isLoaded({file, record}) {
    return file === this.file && record === this.record;
  }

  #mark(meaning, {scroll = null, pin = false, gently = false, still = false}) {
    if (meaning.record >= 0) this.#loadRecord(meaning.record);
    if (meaning.file >= 0) this.#loadFile(meaning.file);
    if (pin || !this.pinned || (scroll && !gently)) this.pinned = meaning;
    if (pin)
      this.onPin(
        meaning.side === "record"
          ? {record: this.records[meaning.record].name, file: null, at: meaning.position}
          : {file: this.files[meaning.file].name, record: null, at: meaning.position},
      );
    const known = meaning.file >= 0 && meaning.row >= 0;
    const range = known ? this.#rangesOf(meaning.file).exactly(meaning.from, meaning.to) : null;
    const record = this.records[this.record]; // none where a kind of file has source files alone
    const rows =
      range && record ? range.places.filter(([number]) => number === this.record).map(([, row]) => row) : [];
    const scrolled = (side) => ({
      scroll: scroll === "both" || scroll === side ? (still ? "box" : "page") : null,
      gently,
    });
    const stretch = (row) => [record.at[row], record.end(row)];
    const line = meaning.side === "file" && !known && this.areLines ? this.left.line(meaning.position) : null;
    this.left.mark(
      line ? [line.from, line.to] : known ? [meaning.from, meaning.to] : null,
      [],
      scrolled("file"),
    );
    if (record)
      this.right.mark(
        known ? stretch(meaning.row) : null,
        rows.filter((row) => row !== meaning.row).map(stretch),
        scrolled("record"),
      );
    this.marked = {rows, n: rows.indexOf(meaning.row)};
    this.#tell(meaning, known, range);
  }

  #tell(meaning, known, range) {
    const record = this.records[this.record],
      file = this.files[this.file];
    if (!known) {
      this.where.value =
        meaning.side === "record"
          ? `${shown(record.name)}:${this.right.lineOf(meaning.position)} comes from no source that is here`
          : `${shown(file.name)}:${this.#lineNumber(this.left.line(meaning.position).from)}${this.areLines ? "" : ": nothing in the archive comes from here"}`;
    } else {
      const start = this.left.line(meaning.from),
        end = this.left.line(meaning.to);
      const column = meaning.from - start.from + 1,
        last = meaning.to - end.from;
      const columns =
        start.number === end.number
          ? `columns ${column}\u2013${last}`
          : `column ${column} to line ${this.#lineNumber(end.from)}`;
      this.where.value = `${shown(file.name)}:${this.#lineNumber(start.from)}, ${columns} \u2194 ${shown(record.name)}:${this.right.lineOf(record.at[meaning.row])}`;
    }
    const {rows, n} = this.marked;
    this.steps.hidden = rows.length < 2;
    this.steps.children[1].textContent = `range ${n + 1} of ${rows.length}`;
    this.#tellElsewhere(known ? meaning : null);
  }

  /** Records, but the shown one, with a range that begins in the same line. */
  #tellElsewhere(meaning) {
    const line = meaning && this.left.line(meaning.from),
      first = new Map();
    for (const range of line ? this.#rangesOf(this.file).beginningIn(line.from, line.to + 1) : []) {
      for (const [number, row] of range.places)
        if (number !== this.record && !first.has(number)) first.set(number, row);
    }
    this.elsewhere.hidden = !first.size;
    const [summary, list] = this.elsewhere.children;
    summary.textContent = `${counted(first.size, "other record")} ${first.size === 1 ? "comes" : "come"} from this line`;
    const items = [...first].slice(0, LISTED).map(([number, row]) =>
      make(
        "li",
        {},
        link(shown(this.records[number].name), () =>
          this.showRecord(number, this.records[number].at[row], {pin: true}),
        ),
      ),
    );
    if (first.size > LISTED) items.push(make("li", {}, `and ${count(first.size - LISTED)} more`));
    list.replaceChildren(...items);
  }

  /** `[` and `]`: to the next of the ranges of this record that come from the same place. */
  stepMarked(direction) {
    const {rows, n} = this.marked ?? {rows: []};
    if (rows.length < 2) return;
    this.showRecord(
      this.record,
      this.records[this.record].at[rows[(n + direction + rows.length) % rows.length]],
      {pin: true},
    );
  }

  /** `n` and `p`: to the next range of the record that has a source. */
  stepRange(direction) {
    const record = this.records[this.record];
    if (!record) return;
    let row = (this.pinned?.row ?? -1) + direction;
    while (row >= 0 && row < record.rows && (!record.hasSource(row) || record.end(row) === record.at[row]))
      row += direction;
    if (row >= 0 && row < record.rows) this.showRecord(this.record, record.at[row], {pin: true});
  }
}

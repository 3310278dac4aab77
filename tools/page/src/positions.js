// Positions in the generated code of a record and in the source files that it comes from, both in UTF-16 units.

/** Columns hold differences; here is what they sum up to. */
function sums(differences) {
  const values = new Int32Array(differences.length);
  for (let n = 0, sum = 0; n < values.length; n++) values[n] = sum += differences[n];
  return values;
}

/** How many of the ascending `values` are at most `value`. */
function countUpTo(values, value, key = (entry) => entry) {
  let low = 0,
    high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(values[middle]) <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A record: row n says that from `at[n]` to the next row stands what comes from `from[n]` on of file `file[n]`. */
export class RecordPositions {
  constructor({name, text, at, file, from, length}) {
    Object.assign(this, {name, text, file, length, at: sums(at), from: sums(from), rows: at.length});
  }

  /** The row of a position, or -1 before the first row. */
  rowAt(position) {
    return countUpTo(this.at, position) - 1;
  }

  end(row) {
    return row + 1 < this.rows ? this.at[row + 1] : this.text.length;
  }

  hasSource(row) {
    return row >= 0 && this.file[row] >= 0;
  }

  /** [from, to, row] of the rows with a source that touch a stretch. */
  *touching(from, to) {
    for (let row = Math.max(0, this.rowAt(from)); row < this.rows && this.at[row] < to; row++) {
      if (this.file[row] >= 0 && this.end(row) > from)
        yield [Math.max(this.at[row], from), Math.min(this.end(row), to), row];
    }
  }
}

/** The ranges of one source file that records point to: {from, to, places: [[record, row]…]}, outer before inner. */
export class FileRanges {
  constructor(records, file) {
    const ranges = new Map();
    for (const [number, record] of records.entries()) {
      for (let row = 0; row < record.rows; row++) {
        if (record.file[row] !== file) continue;
        const from = record.from[row],
          key = from * 2 ** 24 + record.length[row];
        const range = ranges.get(key);
        if (range) range.places.push([number, row]);
        else ranges.set(key, {from, to: from + record.length[row], places: [[number, row]]});
      }
    }
    this.ranges = [...ranges.values()].sort((a, b) => a.from - b.from || b.to - a.to);
    this.longest = this.ranges.reduce((longest, {from, to}) => Math.max(longest, to - from), 0);
  }

  #first(position) {
    return countUpTo(this.ranges, position - this.longest - 1, ({from}) => from);
  }

  /** The smallest range around a position; of equal ones the first. */
  smallestAt(position) {
    let best = null;
    for (let n = this.#first(position); n < this.ranges.length && this.ranges[n].from <= position; n++) {
      const range = this.ranges[n];
      if (position < range.to && (!best || range.to - range.from < best.to - best.from)) best = range;
    }
    return best;
  }

  exactly(from, to) {
    return this.ranges.find((range) => range.from === from && range.to === to) ?? null;
  }

  /** Ranges that begin in a stretch. */
  beginningIn(from, to) {
    return this.ranges.slice(
      countUpTo(this.ranges, from - 1, (range) => range.from),
      countUpTo(this.ranges, to - 1, (range) => range.from),
    );
  }

  *touching(from, to) {
    for (let n = this.#first(from); n < this.ranges.length && this.ranges[n].from < to; n++) {
      const range = this.ranges[n];
      if (range.to > from) yield [Math.max(range.from, from), Math.min(range.to, to), range];
    }
  }
}

/** Of ranges [from, to, value], outer before inner, the stretches in which each is the innermost one. */
export function* innermost(ranges) {
  const open = [];
  let at = 0;
  function* upTo(position) {
    while (open.length) {
      const [, to, value] = open.at(-1),
        end = Math.min(to, position);
      if (end > at) yield [at, end, value];
      at = Math.max(at, end);
      if (to > position) return;
      open.pop();
    }
  }
  for (const range of ranges) {
    yield* upTo(range[0]);
    at = range[0];
    open.push(range);
  }
  yield* upTo(Infinity);
}

/** A source file's lines: it is stitched of fragments, each [position, line number] where numbers go on from. */
export class FileLines {
  constructor({name, text, lines}) {
    Object.assign(this, {name, text, fragments: lines});
  }

  /** The line's number in the model's source of the line that starts at `start`, `lineOf` counting lines of the shown text. */
  number(start, lineOf) {
    const known = countUpTo(this.fragments, start, ([position]) => position) - 1;
    if (known < 0) return lineOf(start);
    const [position, line] = this.fragments[known];
    return line + lineOf(start) - lineOf(position);
  }

  /** Positions at which lines are missing above. */
  gaps() {
    return this.fragments
      .filter(([position, line], n) => position > 0 || (n === 0 && line > 1))
      .map(([position]) => position);
  }
}

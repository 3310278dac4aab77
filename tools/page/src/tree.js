// The tree of sizes: rows after their parents, each with its own figures; sums and children in typed arrays.

export class Tree {
  constructor(columns) {
    this.columns = columns;
    const {parent} = columns,
      rows = parent.length;
    this.rows = rows;
    this.depth = new Uint16Array(rows);
    this.first = new Int32Array(rows + 1); // row r has the children family[first[r]] to family[first[r + 1] - 1]
    for (let row = 1; row < rows; row++) {
      this.first[parent[row] + 1]++;
      this.depth[row] = this.depth[parent[row]] + 1;
    }
    for (let row = 0; row < rows; row++) this.first[row + 1] += this.first[row];
    this.family = new Int32Array(rows);
    const next = this.first.slice();
    for (let row = 1; row < rows; row++) this.family[next[parent[row]]++] = row;
    this.sums = new Map();
  }

  /** The sums of a column over each row and all below it. */
  totals(name) {
    if (!this.sums.has(name)) this.sums.set(name, this.#summed(Float64Array.from(this.columns[name])));
    return this.sums.get(name);
  }

  /** Of two files: the larger of both sizes of each row, summed. */
  larger() {
    const {stored, old} = this.columns;
    if (!this.sums.has("larger"))
      this.sums.set(
        "larger",
        this.#summed(Float64Array.from(stored, (size, row) => Math.max(size, old[row]))),
      );
    return this.sums.get("larger");
  }

  /** Whether it is of two files, an older one and a newer one. */
  get isTwo() {
    return Boolean(this.columns.old);
  }

  /** By how many bytes a row and all below it have grown. */
  growth(row) {
    return this.totals("stored")[row] - this.totals("old")[row];
  }

  /** What became of the size of a row and all below it: "grew2" is to twice or more, "shrank2" to half or less. */
  change(row) {
    const [now, before] = [this.totals("stored")[row], this.totals("old")[row]];
    if (now === before) return "same";
    if (now > before) return now >= 2 * before ? "grew2" : "grew";
    return 2 * now <= before ? "shrank2" : "shrank";
  }

  #summed(sums) {
    for (let row = this.rows - 1; row > 0; row--) sums[this.columns.parent[row]] += sums[row];
    return sums;
  }

  children(row) {
    return this.family.subarray(this.first[row], this.first[row + 1]);
  }

  /** The children with the largest sums, those with none left out. */
  largest(row, sums, most = Infinity) {
    const rows = Array.from(this.children(row)).filter((child) => sums[child] > 0);
    return rows.sort((a, b) => sums[b] - sums[a]).slice(0, most);
  }

  /** The rows from `row` down, as long as each is nothing but its one child: they are one box. */
  chain(row, sums) {
    const rows = [row];
    for (let only = row; (only = this.#only(only, sums)) >= 0;) rows.push(only);
    return rows;
  }

  /** The child that has all of a row's sum, or -1. */
  #only(row, sums) {
    const children = this.children(row);
    return children.length === 1 && sums[children[0]] === sums[row] ? children[0] : -1;
  }

  /** Where Backspace leads: the parent, or that of the whole chain that the row ends. */
  outer(row, sums) {
    let out = this.columns.parent[row];
    while (out > 0 && this.#only(out, sums) >= 0) out = this.columns.parent[out];
    return Math.max(0, out);
  }

  /** What to bring into focus for a row: a leaf has nothing to show but itself. */
  branch(row) {
    return this.isLeaf(row) ? this.columns.parent[row] : row;
  }

  isLeaf(row) {
    return this.first[row] === this.first[row + 1];
  }

  /** Rows from the first level down to `row`. */
  way(row) {
    const rows = [];
    for (let at = row; at > 0; at = this.columns.parent[at]) rows.unshift(at);
    return rows;
  }

  /** Parts of modules are joined by dots, as PyTorch does; all else by slashes. */
  path(row) {
    const names = this.way(row).map((at) => this.columns.name[at]);
    return names.length > 2 && names[0] === "weights"
      ? `weights/${names.slice(1).join(".")}`
      : names.join("/");
  }

  /** The paths of all rows, each made of its parent's. */
  paths() {
    const {name, parent} = this.columns;
    if (!this.allPaths) {
      const inWeights = new Uint8Array(this.rows);
      this.allPaths = [""];
      for (let row = 1; row < this.rows; row++) {
        const up = parent[row];
        inWeights[row] = Number(inWeights[up] || (up === 0 && name[row] === "weights"));
        this.allPaths.push(
          up === 0
            ? name[row]
            : this.allPaths[up] + (inWeights[row] && parent[up] !== 0 ? "." : "/") + name[row],
        );
      }
    }
    return this.allPaths;
  }

  find(path) {
    if (!path) return 0;
    const row = this.paths().indexOf(path);
    return row < 0 ? 0 : row;
  }

  /** The leaves at and below a row. */
  leavesBelow(top) {
    const inside = new Uint8Array(this.rows),
      leaves = [];
    inside[top] = 1;
    for (let row = top; row < this.rows; row++) {
      inside[row] ||= inside[this.columns.parent[row]] ?? 0;
      if (row && inside[row] && this.isLeaf(row)) leaves.push(row);
    }
    return leaves;
  }
}

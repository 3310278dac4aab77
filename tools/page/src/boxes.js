// Which parts of the tree are drawn, and where: at most LIMIT boxes, the largest first; what is left is one box of others.

import {hierarchy, partition, treemap} from "d3-hierarchy";

const LIMIT = 600;
const DEEPEST = 7; // levels below the focus

/**
 * A tree of {row, chain, value, others, children} of the parts of `focus` that are worth a box: `least` is the smallest
 * value. Rows of one child each are one box, of the last of them.
 */
export function chosen(tree, totals, focus, least) {
  const root = {row: focus, chain: [focus], value: totals[focus], others: 0, children: [], depth: 0};
  const waiting = [root];
  for (let boxes = 1; waiting.length && boxes < LIMIT;) {
    const node = waiting.splice(largest(waiting), 1)[0];
    const rows = tree.largest(node.row, totals, LIMIT - boxes - 1).filter((row) => totals[row] >= least);
    if (!rows.length) continue;
    node.children = rows.map((first) => {
      const chain = tree.chain(first, totals);
      const [row, value] = [chain.at(-1), totals[first]];
      return {row, chain, value, others: 0, children: [], depth: node.depth + 1};
    });
    const rest = node.value - rows.reduce((sum, row) => sum + totals[row], 0);
    const others = tree.children(node.row).length - rows.length;
    if (rest > 0)
      node.children.push({
        row: node.row,
        chain: [],
        value: rest,
        others: Math.max(others, 1),
        children: [],
        depth: node.depth + 1,
      });
    boxes += node.children.length;
    waiting.push(
      ...node.children.filter((child) => !child.others && child.depth < DEEPEST && !tree.isLeaf(child.row)),
    );
  }
  return root;
}

function largest(nodes) {
  let best = 0;
  for (let n = 1; n < nodes.length; n++) if (nodes[n].value > nodes[best].value) best = n;
  return best;
}

/** Places of the boxes: [{node, x, y, width, height, leaf}], outer ones first. */
export function laidOut(root, shape, width, height) {
  const top = hierarchy(root, (node) => node.children);
  top.each((node) => {
    node.value = node.data.value;
  });
  if (shape === "treemap")
    treemap()
      .size([width, height])
      .paddingTop((node) => (node.depth && node.children ? 17 : 0))
      .paddingInner(1)
      .round(true)(top);
  else partition().size([width, height]).padding(1)(top);
  const boxes = [];
  top.each((node) => {
    const [w, h] = [node.x1 - node.x0, node.y1 - node.y0];
    if (node.depth || shape === "icicle")
      boxes.push({
        node: node.data,
        depth: node.depth,
        leaf: !node.children,
        x: node.x0,
        y: node.y0,
        width: w,
        height: h,
      });
  });
  return boxes;
}

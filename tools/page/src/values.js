// What a run computed by line of the source, in the order of the run: the longer a bar, the larger a line's number.

import {bars, cell, heading, link, make, tableOf} from "./elements.js";
import {shown} from "./texts.js";

const figure = (value) => (value === 0 ? "0" : value.toPrecision(4));

/** Lines with something wrong have it in words, and a bar of another colour. `goTo` takes a row's link. */
export function valuesSection(values, goTo) {
  const most = Math.max(...values.value) || 1;
  const rows = values.line.map((line, row) => {
    const place = line === null ? "no line" : shown(`${values.file[row]}:${line}`),
      target = values.links[row],
      wrong = values.note[row];
    return [
      cell(target ? link(place, () => goTo(target)) : place),
      cell(shown(`${values.operator[row]} in ${values.module[row]}`)),
      cell(figure(values.value[row]), wrong ? "figure wrong" : "figure"),
      cell(bars({[wrong ? "wrong" : "rest"]: values.value[row]}, most), "wide"),
      cell(wrong, wrong ? "wrong" : null),
    ];
  });
  const headings = [
    heading("Line"),
    heading("Operator"),
    heading(values.heading, "figure"),
    heading("", "wide"),
    heading("Wrong"),
  ];
  return {nodes: [make("div", {class: "values"}, tableOf(headings, rows))]};
}

// The data of the page: base64 of gzip of JSON, in a script element that no browser runs.

/** Columns of {once, of} as lists, whose equal values are one; `archive/page/folding.py` says what they are. */
function unfolded(value) {
  if (Array.isArray(value)) return value.length < 64 ? value.map(unfolded) : value;
  if (value === null || typeof value !== "object") return value;
  if (value.once) return value.of.map((number) => value.once[number]);
  for (const key of Object.keys(value)) value[key] = unfolded(value[key]);
  return value;
}

/** The call stack of a row, outermost frame first: [record, position, text]. */
export function stackOf({parent, record, position, text, of}, row) {
  const stack = [];
  for (let frame = of[row] ?? -1; frame >= 0; frame = parent[frame])
    stack.unshift([record[frame], position[frame], text[frame]]);
  return stack;
}

export async function unpack(element) {
  const packed = atob(element.textContent);
  element.remove();
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return unfolded(await new Response(stream).json());
}

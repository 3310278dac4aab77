// The file of a review: a header, then a row a line, to the byte as `debug-archive leaks --review` writes it.

const FORMAT = "debug-archive review";
const VERSION = 1;
const ROLES = ["name", "key", "value"];
const NUMBER = /(?<!\p{Nd})\p{Nd}{1,3}(?!\p{Nd})/gu; // that counts parts of a model: `N` in a template
// Seven digits, perhaps grouped, or a date: a text with such isn't a template.
const LONG_NUMBER =
  /(?:\p{Nd}[ ./()+_-]{0,3}){7}|(?<!\p{Nd})\p{Nd}{2}([./_-])\p{Nd}{2}\1\p{Nd}{2}(?!\p{Nd})/u;

// The ways out of a file that cannot be read.
const OTHER = "choose one that `leaks --review` or this page has written";
const KEEP = "what was accepted is only in it: take an older copy, or save this page's rows as another file";

/** JSON as Python's `json.dumps(value, ensure_ascii=False)` has it: of a blank more than JavaScript's. */
function json(value) {
  if (Array.isArray(value)) return `[${value.map(json).join(", ")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const pairs = Object.entries(value).filter(([, one]) => one !== undefined);
  return `{${pairs.map(([name, one]) => `${JSON.stringify(name)}: ${json(one)}`).join(", ")}}`;
}

const lineOf = ({role, text, template, count, first, accepted, table}) => {
  const listed = table ? {entries: table.entries, digest: table.digest, odd: table.odd} : undefined;
  return `${json({role, text, template, count, first, accepted, table: listed})}\n`;
};

/** The whole file. */
export const written = (header, rows) => `${json(header)}\n${rows.map(lineOf).join("")}`;

/** By what a row is the same in another file. */
const key = ({role, text, template, table}) => JSON.stringify([role, text, template, table?.digest ?? ""]);

/** Whether a row is accepted, by itself or by a template that it is one of. */
function isAccepted(row, some) {
  if (some.has(key(row))) return true;
  return (
    !row.template &&
    !row.table &&
    !LONG_NUMBER.test(row.text) &&
    some.has(key({...row, text: row.text.replace(NUMBER, "N"), template: true}))
  );
}

/**
 * What a file accepts of `rows`: {header, accepted, others}, `others` being how many further texts it accepts. What is no
 * such file ends in an error whose message is one sentence.
 */
export async function acceptedIn(buffer, rows) {
  const [head, ...lines] = linesOf(buffer);
  const header = headerOf(head);
  const read = lines.map((line, n) => rowOf(line, n + 2));
  await checkDigest(read, header.digest);
  const some = new Set(read.filter(({accepted}) => accepted).map(key));
  const here = new Set(rows.map(key));
  return {
    header,
    accepted: rows.map((row) => isAccepted(row, some)),
    others: [...some].filter((one) => !here.has(one)).length,
  };
}

function linesOf(buffer) {
  try {
    const text = new TextDecoder("utf-8", {fatal: true, ignoreBOM: true}).decode(buffer);
    return text.replace(/\n$/, "").split("\n");
  } catch {
    throw new Error(`this isn't a review file: its bytes aren't UTF-8; ${OTHER}`);
  }
}

function parsed(line) {
  try {
    return JSON.parse(line) ?? {};
  } catch {
    return {};
  }
}

function headerOf(line) {
  const header = parsed(line);
  if (header.format !== FORMAT)
    throw new Error(`this isn't a review file: its first line isn't the header of one; ${OTHER}`);
  if (header.version !== VERSION)
    throw new Error(
      `it is a review file of version ${header.version}, and this page reads version ${VERSION}: make the page with the release that wrote the file`,
    );
  return header;
}

function rowOf(line, number) {
  const row = parsed(line);
  const {role, text, accepted} = row;
  if (!ROLES.includes(role) || typeof text !== "string" || typeof accepted !== "boolean")
    throw new Error(
      `line ${number} isn't a row of a review: it needs a role, a text, and accepted as true or false; ${KEEP}`,
    );
  return row;
}

async function checkDigest(rows, digest) {
  if (!crypto.subtle) return; // a page from a host without TLS has none; the commands check the file again
  const lines = rows.map((row) => lineOf({...row, accepted: undefined})).join("");
  const made = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(lines));
  const digits = [...new Uint8Array(made)].map((byte) => byte.toString(16).padStart(2, "0"));
  if (digits.join("") !== digest)
    throw new Error(
      `its rows are not those that were written: more than what is accepted was changed in it; ${KEEP}`,
    );
}

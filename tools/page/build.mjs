// src/ and the packages of package-lock.json -> archive/page/bundle/: the script, its style, the template, and the
// licences of all that is in the script. `--check` compares with what is committed instead, byte for byte.

import {build} from "esbuild";
import {existsSync, readFileSync, readdirSync, writeFileSync} from "node:fs";
import {dirname, join} from "node:path";
import {fileURLToPath} from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const bundle = join(here, "..", "..", "archive", "page", "bundle");
const LIMIT = 440_000; // bytes of the script

/** Names of the packages, in order, of which something is in the script. */
function packagesOf(inputs) {
  const names = Object.keys(inputs).flatMap(
    (path) => path.match(/node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1] ?? [],
  );
  return [...new Set(names)].sort();
}

function licenceOf(name) {
  const folder = join(here, "node_modules", name);
  const {version, license} = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  if (!file) throw new Error(`${name} comes without the text of its licence`);
  return `${name} ${version} (${license})\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
}

async function made() {
  const common = {
    bundle: true,
    minify: true,
    write: false,
    target: "es2022",
    absWorkingDir: here,
    charset: "ascii",
  };
  const script = await build({
    ...common,
    entryPoints: ["src/main.js"],
    format: "iife",
    metafile: true,
    legalComments: "none",
  });
  const style = await build({...common, entryPoints: ["src/page.css"]});
  const rule = "\n" + "-".repeat(80) + "\n\n";
  return new Map([
    ["page.js", script.outputFiles[0].text],
    ["page.css", style.outputFiles[0].text],
    ["page.html", readFileSync(join(here, "src", "page.html"), "utf8")],
    ["LICENSES.txt", packagesOf(script.metafile.inputs).map(licenceOf).join(rule)],
  ]);
}

/** What a text inside <script> or <style> must not hold, and how large it may be. */
function checkEmbeddable(files) {
  for (const name of ["page.js", "page.css"]) {
    const text = files.get(name);
    if (/<\/(script|style)|<!--|[^\x00-\x7f]/i.test(text))
      throw new Error(`${name} cannot stand inside a page`);
  }
  const size = files.get("page.js").length;
  if (size > LIMIT) throw new Error(`page.js has ${size} bytes, more than ${LIMIT}`);
}

const files = await made();
checkEmbeddable(files);
const differing = [...files].filter(([name, text]) => {
  const path = join(bundle, name);
  return !existsSync(path) || readFileSync(path, "utf8") !== text;
});
if (process.argv.includes("--check")) {
  for (const [name] of differing) console.error(`archive/page/bundle/${name} is not what tools/page makes`);
  process.exitCode = differing.length ? 1 : 0;
} else {
  for (const [name, text] of differing) writeFileSync(join(bundle, name), text);
}
for (const [name, text] of files)
  console.log(`${name}  ${Buffer.byteLength(text).toLocaleString("en")} bytes`);

// The data of the page: base64 of gzip of JSON, in a script element that no browser runs.

export async function unpack(element) {
  const packed = atob(element.textContent);
  element.remove();
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

// Where the page's files are: beside it, or within it if it is a single file.

/** The bytes of a file, as an ArrayBuffer. */
export async function readFile(name) {
  const within = document.getElementById(`file:${name}`);
  if (within) return fromBase64(within.textContent);
  const response = await fetch(name);
  if (!response.ok) throw new Error(`${name}: ${response.status}`);
  return response.arrayBuffer();
}

/** Where the worker's script is: made here, so that the worker is held to the policy of the page. */
export function workerScript() {
  const within = document.getElementById("worker");
  const text = within?.textContent ?? `import "${new URL("app/worker.js", document.baseURI)}";`;
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  return { address, type: within ? "classic" : "module" };
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text).buffer;
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes.buffer;
}

// A stream of JSON documents, as `node-dns status --watch -o json`, `node-dns monitor -o json` and `journalctl -o json` print it.

// newReader returns a function that takes pieces of the stream and calls onDocument with each document that is complete. A
// document ends with its line: "}" alone, or a line that is a document of its own. Text that is no JSON is dropped.
export function newReader(onDocument) {
  let rest = '';
  let lines = [];
  const end = () => {
    const text = lines.join('\n');
    lines = [];
    const value = parse(text);
    if (value !== undefined) {
      onDocument(value);
    }
  };
  return (piece) => {
    const parts = (rest + piece).split('\n');
    rest = parts.pop();
    for (const line of parts) {
      if (line === '{') {
        lines = [line]; // what came before it was cut off
      } else if (line.startsWith('{')) {
        lines = [line];
        end();
      } else if (lines.length > 0) {
        lines.push(line);
        if (line === '}') {
          end();
        }
      }
    }
  };
}

const apiVersion = 'node-dns/v1';

// expect returns a document of node-dns if it has this kind, or is an Error. For any other value it returns an Error.
export function expect(value, kind) {
  if (value?.apiVersion === apiVersion && (value.kind === kind || value.kind === 'Error')) {
    return value;
  }
  const got = `${value?.apiVersion ?? 'no apiVersion'}, kind ${value?.kind ?? 'unknown'}`;
  return {
    kind: 'Error',
    error: `node-dns printed unexpected JSON (${got}); this page reads ${apiVersion}, kind ${kind}`,
    hint: 'Install node-dns and cockpit-node-dns of the same version.',
  };
}

// parse returns undefined for text that is no JSON.
export function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

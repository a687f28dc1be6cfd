// Streams of JSON documents, as printed by `node-dns status --watch -o json`, `node-dns monitor -o
// json` and `journalctl -o json`.

// newReader returns a function that takes pieces of the stream and calls onDocument with each
// complete document. A document is one line, or the lines from "{" to "}". Other text is dropped.
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
        lines = [line]; // drops a document that was cut off
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

// expect returns a document of node-dns if it has this kind, or is an Error. For any other value it
// returns an Error.
export function expect(value, kind) {
  if (value?.apiVersion === apiVersion && (value.kind === kind || value.kind === 'Error')) {
    return value;
  }
  const got = `${value?.apiVersion ?? 'no apiVersion'}, kind ${value?.kind ?? 'unknown'}`;
  return {
    kind: 'Error',
    error: `node-dns printed unexpected JSON (${got}); this page reads ${apiVersion}, kind ${kind}`,
    hint: 'Install node-dns and cockpit-node-dns of the same version.',
    problem: 'unexpected-json',
  };
}

// parse returns undefined if the text is not JSON.
export function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

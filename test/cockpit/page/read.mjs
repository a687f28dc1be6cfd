// The JSON of the Go tests' golden files, so that the page is tested with the daemon's current
// output.
import { readFileSync } from 'node:fs';

const root = new URL('../../../', import.meta.url);

export function file(path) {
  return readFileSync(new URL(path, root), 'utf8');
}

export function golden(path) {
  return JSON.parse(file(path));
}

export const control = (name) => golden(`internal/admin/control/testdata/${name}.json`);

// The JSON of the Go tests' golden files: if it changes, the tests of the page see it.
import { readFileSync } from 'node:fs';

const root = new URL('../../../', import.meta.url);

export function file(path) {
  return readFileSync(new URL(path, root), 'utf8');
}

export function golden(path) {
  return JSON.parse(file(path));
}

export const control = (name) => golden(`internal/admin/control/testdata/${name}.json`);

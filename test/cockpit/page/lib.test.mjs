import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { mock, test } from 'node:test';
import { expect, newReader } from '../../../cockpit/lib/documents.js';
import { h } from '../../../cockpit/lib/dom.js';
import { spaced } from '../../../cockpit/lib/spaced.js';
import { age, duration, milliseconds, number, percent, plural, printable, time } from '../../../cockpit/lib/words.js';
import { control, file } from './read.mjs';
import { find, text } from './tree.mjs';

test('documents: a stream in pieces of any size', () => {
  const documents = [control('busy'), { kind: 'Error', error: 'a\nb}{', exitCode: 3 }, control('all-well')];
  const stream = `${JSON.stringify(documents[0], null, 2)}\n\n${JSON.stringify(documents[1])}\n\nno JSON\n{\n  "cut\n${JSON.stringify(documents[2], null, 2)}\n`;
  for (const size of [1, 7, 1000, stream.length]) {
    const got = [];
    const read = newReader((value) => got.push(value));
    for (let at = 0; at < stream.length; at += size) {
      read(stream.slice(at, at + size));
    }
    assert.deepEqual(got, documents, `pieces of ${size}`);
  }
});

test('documents: JSON of another version or kind is an error', () => {
  const error = { apiVersion: 'node-dns/v1', kind: 'Error', error: 'busy', exitCode: 1 };
  for (const good of [control('all-well'), error]) {
    assert.equal(expect(good, 'Status'), good);
  }
  for (const bad of [{ ...control('all-well'), apiVersion: 'node-dns/v2' }, control('views/history'), {}, null, undefined, 5, 'x', []]) {
    const { kind, error: why, hint } = expect(bad, 'Status');
    assert.equal(kind, 'Error');
    assert.match(why, /this page reads node-dns\/v1, kind Status$/);
    assert.match(hint, /same version/);
  }
});

test('spaced: a burst of calls is two calls', (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.after(() => mock.timers.reset());
  let calls = 0;
  const check = spaced(() => { calls += 1; }, 15000);
  for (let i = 0; i < 10; i += 1) {
    check();
  }
  assert.equal(calls, 1);
  mock.timers.tick(14999);
  assert.equal(calls, 1);
  mock.timers.tick(1);
  assert.equal(calls, 2);
  mock.timers.tick(60000);
  assert.equal(calls, 2);
  check();
  assert.equal(calls, 3);
});

test('words', () => {
  assert.equal(printable('<b>\u001b[2J\u009b\u202e\u200b\na'), '<b>\\x1b[2J\\x9b\\u202e\\u200b\na');
  assert.equal(printable('Bücher 本'), 'Bücher 本');
  assert.deepEqual([50_000, 9_994_000, 9_996_000, 4e9].map(milliseconds), ['0.05 ms', '9.99 ms', '10 ms', '4000 ms']);
  assert.deepEqual([-1, 0, 59.9, 125, 3600, 93600].map(duration), ['0s', '0s', '59s', '2m 5s', '1h 0m', '1d 2h']);
  assert.equal(age('2026-11-21T12:00:10Z', '2026-11-21T12:00:00Z'), '0s');
  assert.deepEqual([0, 1, 1234567].map((n) => plural(n, 'query', 'queries')), ['0 queries', '1 query', '1\u202f234\u202f567 queries']);
  assert.equal(number(120400), '120\u202f400');
  assert.deepEqual([percent(914, 1000), percent(0, 0)], ['91.4 %', '–']);
  assert.deepEqual([number(undefined), milliseconds(undefined), duration(NaN), age('x', 'y')], ['–', '–', '–', '–']);
  const now = new Date(2026, 10, 21, 15, 4, 5);
  assert.deepEqual([time(now, now), time(new Date(2026, 10, 20, 1, 2, 3), now)], ['15:04:05', '2026-11-20 01:02:03']);
});

test('dom: text is never markup, and nothing is left out but what is empty', () => {
  const tree = h('p', { class: 'a b' }, ['x', null, [undefined, 0, false]], h('b', null, '<img src=x onerror=alert(1)>\u001b'));
  assert.equal(text(tree), 'x 0 <img src=x onerror=alert(1)>\\x1b');
  assert.deepEqual(find(tree, 'b').map((node) => node.tag), ['p', 'b']);
});

const sources = ['index.html', 'node-dns.js', ...['cards', 'lib'].flatMap((dir) => readdirSync(new URL(`../../../cockpit/${dir}`, import.meta.url)).map((name) => `${dir}/${name}`))];

test('sources: no markup is parsed, nothing is loaded from elsewhere, and nothing is inline', () => {
  for (const name of sources) {
    const source = file(`cockpit/${name}`);
    assert.doesNotMatch(source, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/, name);
    assert.doesNotMatch(source.replaceAll('http://www.w3.org/2000/svg', ''), /https?:\/\//, name);
  }
  const page = file('cockpit/index.html');
  assert.doesNotMatch(page, /<script(?![^>]*src=)|<style|\sstyle=|\son[a-z]+=/);
});

test('sources: every class of PatternFly has its rules in patternfly.css', () => {
  const css = file('cockpit/patternfly.css');
  const used = new Set(sources.flatMap((name) => file(`cockpit/${name}`).match(/\bpf-(v5|m)-[\w-]+/g) ?? []));
  // Parts of components for which PatternFly has no rule.
  const without = ['pf-v5-c-label__text', 'pf-v5-c-table__tbody', 'pf-v5-theme-dark'];
  for (const name of used) {
    assert.ok(css.includes(`.${name}`) || without.includes(name), `${name}: run scripts/cockpit-patternfly`);
  }
});

test('page: every field has a label, every section a name, every id is there once', () => {
  const page = file('cockpit/index.html');
  const ids = [...page.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id);
  assert.equal(new Set(ids).size, ids.length);
  for (const [, id] of page.matchAll(/<(?:input|select) id="([^"]+)"/g)) {
    assert.ok(page.includes(`<label for="${id}">`), id);
  }
  for (const [section] of page.matchAll(/<section [^>]*>/g)) {
    const by = section.match(/aria-labelledby="([^"]+)"/)?.[1];
    assert.ok(section.includes('aria-label=') || ids.includes(by), section);
  }
  for (const [, id] of file('cockpit/node-dns.js').matchAll(/\$\('([^']+)'\)/g)) {
    assert.ok(ids.includes(id), `node-dns.js looks for ${id}`);
  }
});

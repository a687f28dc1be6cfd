// node-dns.js with a fake document and a fake Cockpit: what the page runs, and when.
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { FakeElement, newCockpit, settle } from './fakes.mjs';
import { control, file, golden } from './read.mjs';

mock.timers.enable({ apis: ['setTimeout'] });
const { cockpit, programs } = newCockpit();
const listeners = {};
Object.assign(cockpit, {
  hidden: false,
  permission: () => ({ allowed: true, addEventListener() {} }),
  transport: { wait: (begin) => begin() },
  addEventListener: (name, listener) => { listeners[name] = listener; },
});
const elements = new Map([...file('cockpit/index.html').matchAll(/\sid="([^"]+)"/g)].map(([, id]) => [id, new FakeElement('div')]));
const $ = (id) => elements.get(id);
const main = new FakeElement('main');
main.focus = () => { document.activeElement = main; };
globalThis.window = { cockpit, addEventListener() {}, matchMedia: () => ({ matches: false, addEventListener() {} }) };
globalThis.document = {
  getElementById: $,
  querySelector: () => main,
  querySelectorAll: () => [$('log-queries')],
  documentElement: new FakeElement('html'),
};
globalThis.localStorage = { getItem: () => null };
globalThis.requestAnimationFrame = (drawNow) => drawNow();
await import('../../../cockpit/node-dns.js');

// running returns the programs with this word that the page has not closed.
const running = (word) => programs.filter((program) => program.argv.includes(word) && !program.isClosed && !program.isEnded);

// print writes a document as a program that the page follows.
const print = (word, value) => running(word).at(-1).print(`${JSON.stringify(value)}\n`);

// end ends a program with this output.
async function end(word, output, failure) {
  const program = running(word).at(-1);
  program.isEnded = true;
  program.print?.(output);
  program.end(failure, output);
  await settle();
}

const status = { ...control('all-well'), apiVersion: 'node-dns/v1', kind: 'Status' };
const failure = { apiVersion: 'node-dns/v1', kind: 'Error', error: 'node-dns does not answer', exitCode: 1 };

test('page: from the first status to a restart of a daemon that hangs', async () => {
  assert.match($('state').textContent, /Querying node-dns/);
  print('status', status);
  assert.match($('state').textContent, /DNS works/);
  assert.deepEqual([$('restart').hidden, $('start').hidden], [false, true]);
  assert.equal(running('doctor').length, 1);
  await end('doctor', JSON.stringify({ ...golden('internal/admin/doctor/testdata/report.json'), apiVersion: 'node-dns/v1', kind: 'Doctor' }), { exit_status: 1 });
  assert.match($('state').textContent, /the check found 3 problems/);

  document.activeElement = $('restart');
  print('status', failure);
  assert.match($('state').textContent, /node-dns does not answer.*Grey parts/);
  assert.equal($('restart').hidden, true);
  assert.equal(document.activeElement, main, 'the focus is not lost');
  await end('systemctl', 'LoadState=loaded\nActiveState=active\nSubState=running\n');
  assert.equal($('restart').hidden, false);
  assert.equal($('log-queries').disabled, true);
  print('status', status);
  assert.match($('state').textContent, /DNS works/);
});

test('page: a flapping daemon runs doctor at most every 15 s', () => {
  const before = programs.filter((program) => program.argv.includes('doctor')).length;
  for (let i = 0; i < 20; i += 1) {
    print('status', i % 2 ? status : failure);
  }
  assert.equal(programs.filter((program) => program.argv.includes('doctor')).length, before);
  mock.timers.tick(15000);
  assert.equal(programs.filter((program) => program.argv.includes('doctor')).length, before + 1);
});

test('page: a journalctl that ends is restarted, and its events are shown once', async () => {
  const entry = { __REALTIME_TIMESTAMP: '1795357800000000', PRIORITY: '4', NODE_DNS_CONDITION: 'upstream-down', MESSAGE: 'x' };
  for (let run = 0; run < 3; run += 1) {
    print('journalctl', entry);
    assert.equal($('events').textContent.split('upstream down').length - 1, 1);
    await end('journalctl', '', { exit_status: 1, message: 'journald was restarted' });
    assert.match($('events').textContent, /The journal is not shown: journald was restarted/);
    mock.timers.tick(5000);
  }
});

test('page: no program runs while it is hidden', () => {
  $('queries-form').send('submit');
  assert.equal(running('monitor').length, 1);
  cockpit.hidden = true;
  listeners.visibilitychange();
  for (const word of ['status', 'journalctl', 'monitor']) {
    assert.equal(running(word).length, 0, word);
  }
  mock.timers.tick(600_000);
  assert.equal(running('status').length, 0);
  cockpit.hidden = false;
  listeners.visibilitychange();
  assert.deepEqual([running('status').length, running('journalctl').length, running('monitor').length], [1, 1, 0]);
});

test('page: a status of another version is an error, and does not end the page', () => {
  print('status', { ...status, apiVersion: 'node-dns/v2' });
  assert.match($('state').textContent, /This page cannot read the status.*node-dns\/v2/);
  assert.equal($('restart').hidden, true);
  print('status', { ...status, queries: undefined });
  assert.match($('traffic').textContent, /This part cannot be shown/);
  assert.match($('servers').textContent, /upstream/);
  print('status', status);
  assert.match($('state').textContent, /DNS works/);
});

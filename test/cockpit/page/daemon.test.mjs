import assert from 'node:assert/strict';
import { beforeEach, mock, test } from 'node:test';
import { newCockpit, settle } from './fakes.mjs';
import { control } from './read.mjs';

const { cockpit, programs } = newCockpit();
globalThis.window = { cockpit };
const { follow, keep, run } = await import('../../../cockpit/lib/daemon.js');

const denied = { apiVersion: 'node-dns/v1', kind: 'Error', error: 'permission denied', hint: 'try it with sudo', exitCode: 4 };

beforeEach(() => { programs.length = 0; });

// ended returns the result of run for a program with this output and this failure; undefined means
// exit code 0.
async function ended(output, failure) {
  const result = run(['node-dns'], 'try', 'Status');
  programs.at(-1).print(output.slice(0, 10));
  programs.at(-1).print(output.slice(10));
  programs.at(-1).end(failure);
  return result;
}

test('run: a document, with any exit code', async () => {
  const status = control('all-well');
  const text = JSON.stringify(status);
  assert.deepEqual(await ended(text), status);
  assert.deepEqual(await ended(text, { exit_status: 1, message: 'exited' }), status);
  assert.deepEqual(await ended(JSON.stringify(denied), { exit_status: 4, message: 'exited' }), denied);
  assert.deepEqual(programs[0].options, { superuser: 'try', environ: ['LC_ALL=C.UTF-8', 'NO_COLOR=1'], err: 'message' });
});

test('run: output that is cut off, no output, and another version', async () => {
  const text = JSON.stringify(control('all-well'));
  assert.match((await ended(text.slice(0, 500))).error, /unexpected JSON/);
  assert.deepEqual(await ended(text.slice(0, 500), { exit_signal: 'KILL', message: 'killed' }), { kind: 'Error', error: 'killed', exitCode: undefined, problem: undefined });
  assert.equal((await ended('', { problem: 'not-found', message: 'no such program' })).problem, 'not-found');
  for (const failure of [undefined, { exit_status: 1, message: 'exited' }]) {
    assert.match((await ended(text.replace('node-dns/v1', 'node-dns/v2'), failure)).error, /node-dns\/v2.*this page reads node-dns\/v1/);
  }
});

test('follow: the last error that node-dns prints is the reason, but not for a lost connection', async () => {
  const ends = [];
  for (const failure of [{ exit_status: 4, message: 'exited' }, { problem: 'disconnected', message: 'lost' }]) {
    follow(['node-dns'], 'try', () => {}, (error) => ends.push(error));
    programs.at(-1).print(`${JSON.stringify(denied)}\n`);
    programs.at(-1).end(failure);
    await settle();
  }
  assert.deepEqual([ends[0], ends[1].problem], [denied, 'disconnected']);
});

test('keep: a program that prints nothing is restarted less and less often', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.after(() => mock.timers.reset());
  const stop = keep(['journalctl'], 'try', () => {}, () => {});
  const rests = [];
  for (let run = 0; run < 7; run += 1) {
    const before = programs.length;
    programs.at(-1).end({ exit_status: 1 });
    await settle();
    let rest = 0;
    while (programs.length === before && rest < 120) {
      mock.timers.tick(1000);
      rest += 1;
    }
    rests.push(rest);
    if (run === 5) {
      programs.at(-1).print('{"MESSAGE":"x"}\n');
    }
  }
  assert.deepEqual(rests, [5, 10, 20, 40, 60, 60, 5]);
  stop();
  assert.ok(programs.at(-1).isClosed);
});

test('keep: the first document of each run is marked, and a stop ends it all', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.after(() => mock.timers.reset());
  const got = [];
  let stop = keep(['journalctl'], 'try', (value, isFirst) => got.push([value.n, isFirst]), () => {});
  programs[0].print('{"n":1}\n{"n":2}\n');
  programs[0].end({ exit_status: 1 });
  await settle();
  mock.timers.tick(5000);
  programs[1].print('{"n":1}\n');
  stop();
  programs[1].print('{"n":2}\n');
  assert.deepEqual(got, [[1, true], [2, false], [1, true]]);

  stop = keep(['journalctl'], 'try', () => {}, () => {});
  programs[2].end(null);
  await settle();
  stop();
  mock.timers.tick(60000);
  assert.equal(programs.length, 3);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { actionOf, stateCard, unitOf, verdict } from '../../../cockpit/cards/state.js';
import { expect } from '../../../cockpit/lib/documents.js';
import { control, file, golden } from './read.mjs';
import { text } from './tree.mjs';

// notRunning returns the JSON of a command without a running daemon, as documented in
// docs/reference/commands.md.
function notRunning() {
  const sample = JSON.parse(file('docs/reference/commands.md').match(/^\{"apiVersion".*"kind":"Error".*\}$/m)[0]);
  assert.deepEqual(Object.keys(sample), ['apiVersion', 'kind', 'error', 'hint', 'exitCode']);
  return { ...sample, error: 'node-dns is not running', hint: '', exitCode: 3 };
}

const report = golden('internal/admin/doctor/testdata/report.json');

test('state: what the first line says', () => {
  const down = control('upstream-down');
  const allDown = structuredClone(down);
  Object.assign(allDown.routes[2].servers[0], { state: 'down', error: 'i/o timeout' });
  const failing = structuredClone(control('all-well'));
  failing.lastMinute = { overNanoseconds: 60e9, queries: 100, responses: 100, servfail: 40 };
  for (const [name, known, level, title] of [
    ['nothing known', {}, 'none', 'Querying node-dns …'],
    ['well', { status: control('all-well') }, 'ok', 'DNS works'],
    ['synced', { status: control('cluster/synced') }, 'ok', 'DNS works'],
    ['one upstream down', { status: down }, 'warn', 'DNS works, with problems'],
    ['all upstreams down', { status: allDown }, 'fail', 'No upstream nameserver answers'],
    ['many SERVFAIL', { status: failing }, 'warn', 'DNS works, with problems'],
    ['not ready', { status: control('not-ready') }, 'fail', 'DNS does not work: node-dns is not ready'],
    ['busy', { status: control('busy') }, 'warn', 'DNS works, with problems'],
    ['doctor finds more', { status: control('all-well'), report }, 'warn', 'DNS answers, and the check found 3 problems'],
    ['stopped', { failure: notRunning(), unit: { ActiveState: 'inactive', UnitFileState: 'enabled' } }, 'fail', 'node-dns is stopped'],
    ['starting', { failure: notRunning(), unit: { ActiveState: 'activating' } }, 'none', 'node-dns is starting'],
    ['failed', { failure: notRunning(), unit: { ActiveState: 'failed', Result: 'exit-code' } }, 'fail', 'node-dns has failed'],
    ['crashes in a loop', { failure: notRunning(), unit: { ActiveState: 'activating', SubState: 'auto-restart', Result: 'core-dump' } }, 'fail', 'node-dns fails again and again'],
    ['masked', { failure: notRunning(), unit: { ActiveState: 'inactive', LoadState: 'masked', UnitFileState: 'masked' } }, 'fail', 'node-dns is masked'],
    ['no unit', { failure: notRunning(), unit: { ActiveState: 'inactive', LoadState: 'not-found' } }, 'fail', 'node-dns is not installed'],
    ['hangs', { failure: { ...notRunning(), exitCode: 1 }, unit: { ActiveState: 'active' } }, 'fail', 'node-dns does not answer'],
    ['before systemd has answered', { failure: notRunning() }, 'none', 'node-dns does not answer'],
    ['no connection', { failure: { error: 'Server has closed the connection.', problem: 'disconnected' } }, 'none', 'Cockpit has no connection to this node'],
    ['no systemd', { failure: notRunning(), unit: {} }, 'fail', 'node-dns is not running'],
    ['another version', { failure: expect({ apiVersion: 'node-dns/v2' }, 'Status'), unit: { ActiveState: 'active' } }, 'none', 'This page cannot read the status'],
    ['a field is missing', { status: { ready: true, routes: {} } }, 'none', 'This page cannot read the status'],
    ['denied', { failure: { ...notRunning(), exitCode: 4 } }, 'none', 'This user may not query node-dns'],
    ['not installed', { failure: { error: 'no such file', problem: 'not-found' } }, 'fail', 'node-dns is not installed'],
  ]) {
    const got = verdict(known);
    assert.deepEqual([got.level, got.title], [level, title], name);
    assert.match(text(stateCard(known)), new RegExp(title), name);
    assert.ok(level !== 'fail' && level !== 'warn' || name === 'stopped' || got.reasons.length > 0, `${name}: a reason`);
  }
});

test('state: a server that is down is one reason, and the worst comes first', () => {
  assert.deepEqual(verdict({ status: control('upstream-down') }).reasons, ['Upstream nameserver 10.0.0.3 is down: i/o timeout']);
  assert.deepEqual(verdict({ status: control('busy') }).reasons, [
    'dns+tls://172.16.0.53#vpn.example, for corp.example., is down: i/o timeout', '172.16.0.53 is down',
  ]);
});

test('state: why node-dns is stopped', () => {
  const { reasons } = verdict({ failure: notRunning(), unit: { ActiveState: 'failed', Result: 'exit-code' }, report });
  const other = report.findings.find((f) => f.level === 'fail' && f.check !== 'daemon');
  assert.ok(other && reasons.includes(other.what), `${reasons}`);
});

test('state: the output of systemctl', () => {
  assert.deepEqual(unitOf('LoadState=loaded\nActiveState=failed\nResult=exit=code\nUnitFileState=\n'), {
    LoadState: 'loaded', ActiveState: 'failed', Result: 'exit=code', UnitFileState: '',
  });
  assert.equal(verdict({ failure: notRunning(), unit: unitOf('') }).title, 'node-dns is not running');
});

test('state: what the button does', () => {
  const hangs = { ...notRunning(), exitCode: 1 };
  for (const [name, known, action] of [
    ['nothing known', {}, undefined],
    ['running', { status: control('all-well') }, 'restart'],
    ['stopped', { status: control('all-well'), failure: notRunning(), unit: { ActiveState: 'inactive', LoadState: 'loaded' } }, 'start'],
    ['failed', { failure: notRunning(), unit: { ActiveState: 'failed', LoadState: 'loaded' } }, 'start'],
    ['waits for the next start', { failure: notRunning(), unit: { ActiveState: 'activating', SubState: 'auto-restart' } }, 'start'],
    ['starting', { failure: notRunning(), unit: { ActiveState: 'activating', SubState: 'start' } }, undefined],
    ['stopping', { failure: notRunning(), unit: { ActiveState: 'deactivating' } }, undefined],
    ['hangs', { failure: hangs, unit: { ActiveState: 'active' } }, 'restart'],
    ['no socket', { failure: notRunning(), unit: { ActiveState: 'active' } }, 'restart'],
    ['masked', { failure: notRunning(), unit: { ActiveState: 'inactive', LoadState: 'masked' } }, undefined],
    ['before systemd has answered', { failure: hangs }, undefined],
    ['denied', { failure: { ...notRunning(), exitCode: 4 }, unit: { ActiveState: 'active' } }, undefined],
    ['another version', { failure: expect({}, 'Status'), unit: { ActiveState: 'active' } }, undefined],
    ['not installed', { failure: { problem: 'not-found' }, unit: { ActiveState: 'inactive' } }, undefined],
  ]) {
    assert.equal(actionOf(known), action, name);
  }
});

test('state: many reasons are cut', () => {
  const status = control('all-well');
  status.problems = Array.from({ length: 1000 }, (_, i) => `problem ${i}`);
  const words = text(stateCard({ status }));
  assert.match(words, /problem 9 and 990 more$/);
});

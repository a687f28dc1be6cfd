import assert from 'node:assert/strict';
import { test } from 'node:test';
import { conditions } from '../../../cockpit/cards/conditions.js';
import { doctorCard, headline } from '../../../cockpit/cards/doctor.js';
import { changesOf, eventOf, eventsCard, journalArguments, mostEvents } from '../../../cockpit/cards/events.js';
import { lastStep, lookupArguments, lookupCard } from '../../../cockpit/cards/lookup.js';
import { clusterCard, nodeCard } from '../../../cockpit/cards/node.js';
import { guarded } from '../../../cockpit/cards/parts.js';
import { monitorArguments, queriesCard, withEvent } from '../../../cockpit/cards/queries.js';
import { healthOf, rowsOf, serversCard } from '../../../cockpit/cards/servers.js';
import { stateCard } from '../../../cockpit/cards/state.js';
import { flushArguments, slowCard, trafficCard } from '../../../cockpit/cards/traffic.js';
import { control, file, golden } from './read.mjs';
import { find, text } from './tree.mjs';

const screens = ['all-well', 'busy', 'dbus', 'large-lost', 'not-ready', 'upstream-down'];
const clusters = ['autopath-off', 'from-disk', 'no-kubeconfig', 'synced', 'syncing-forwarded'];
const hostile = /[\u001b\u202e]/;

test('every card shows every screen', () => {
  for (const name of [...screens, ...clusters.map((cluster) => `cluster/${cluster}`)]) {
    const status = control(name);
    for (const card of [serversCard, clusterCard, trafficCard, nodeCard, slowCard]) {
      const shown = card(status);
      assert.doesNotMatch(shown ? text(shown) : '', /undefined|NaN|null|\[object/, `${card.name} of ${name}`);
    }
  }
});

test('servers: upstream nameservers first, with who set them', () => {
  const status = control('busy');
  assert.deepEqual(rowsOf(status).map((row) => [row.domain, row.server.address, healthOf(row, status.now).level]), [
    ['.', '10.0.0.2', 'ok'], ['.', '10.0.0.3', 'none'], ['cluster.local.', '172.30.0.10', 'ok'], ['30.172.in-addr.arpa.', '172.30.0.10', 'ok'],
    ['corp.example.', 'dns+tls://172.16.0.53#vpn.example', 'fail'],
  ]);
  const words = text(serversCard(control('busy')));
  for (const part of ['NetworkManager eth0 (System eth0)', 'dnsIP in /etc/origin/node/node-config.yaml:3', 'down for 2m 5s i/o timeout', 'over TLS (opportunistic)', '1.20 ms', '31 000']) {
    assert.ok(words.includes(part), `${part} in ${words}`);
  }
  assert.ok(text(serversCard(control('large-lost'))).includes('over UDP, TCP above 512 bytes'));
  assert.ok(text(serversCard(control('not-ready'))).includes('No upstream nameserver is known'));
});

test('a card that lacks a field is a notice, and does not stop the page', () => {
  for (const card of [trafficCard, nodeCard, clusterCard, serversCard]) {
    assert.match(text(guarded(card, { cluster: { domain: 'a.', resolver: 5, reverseZones: 5 }, routes: 5 })), /This part cannot be shown.*TypeError/, card.name);
  }
  assert.equal(text(guarded(clusterCard, {})), 'The cluster domain is unknown.');
});

test('a screen reader reads what a user waits for, and no numbers that change all the time', () => {
  const report = golden('internal/admin/doctor/testdata/report.json');
  const failing = control('upstream-down');
  failing.lastMinute = { queries: 100, responses: 100, servfail: 40 };
  for (const [name, card, words] of [
    ['state', stateCard({ status: failing }), 'DNS works, with problems'],
    ['no lookup', lookupCard({}), ''],
    ['lookup runs', lookupCard({ isRunning: true }), 'Looking it up …'],
    ['lookup', lookupCard({ lookup: control('lookup/found') }), /^www\.example\. found From 10\.0\.0\.2 .* old\.$/],
    ['lookup fails', lookupCard({ lookup: { kind: 'Error', error: 'not running' } }), 'not running'],
    ['no check', doctorCard({}), 'Not checked yet.'],
    ['check', doctorCard({ report, at: new Date() }), /^3 problems, 2 warnings checked at [\d:]+$/],
    ['check fails', doctorCard({ report: { kind: 'Error', error: 'broken' } }), 'broken'],
  ]) {
    const [region, ...others] = find(card, 'div').filter((node) => node.properties.role === 'status');
    assert.equal(others.length, 0, name);
    assert.match(text(region), words instanceof RegExp ? words : new RegExp(`^${words}$`), name);
  }
  assert.doesNotMatch(file('cockpit/index.html'), /aria-live|aria-pressed/);
});

test('100 000 routes: the page shows the first ones and the number of the others', () => {
  const status = control('all-well');
  const servers = [{ address: '10.0.0.2', state: 'down', queries: 1 }];
  status.routes = [...status.routes, ...Array.from({ length: 100_000 }, (_, i) => ({ domain: `d${i}.example.`, source: 'dbus', servers }))];
  status.overridden = status.routes.map(({ domain }) => ({ domain, source: 'a', why: 'b', servers: ['10.0.0.2'] }));
  const card = serversCard(status);
  assert.ok(find(card, 'tr').length < 300 && find(card, 'li').length < 300);
  assert.match(text(card), /and 99 \d{3} more.*and 99 \d{3} more/);
});

test('servers: domains without a server, the built-in zone, and what lost', () => {
  const dbus = text(serversCard(control('dbus')));
  assert.match(dbus, /lab\.example\. none no such names/);
  assert.match(dbus, /Set, but another source wins \(1\).*10\.0\.0\.9 10\.0\.0\.8 from NetworkManager eth0/);
  const zones = (name) => rowsOf(control(`cluster/${name}`)).filter((row) => row.domain === 'cluster.local.').map((row) => [row.name, row.level]);
  assert.deepEqual(zones('synced'), [['built in', 'ok']]);
  assert.deepEqual(zones('from-disk'), [['built in', 'warn']]);
  const forgotten = control('cluster/synced');
  delete forgotten.cluster.resolver;
  assert.deepEqual(rowsOf(forgotten).filter((row) => row.domain === 'cluster.local.').map((row) => row.state), ['names fail']);
});

test('cluster: where names come from', () => {
  for (const [name, part] of [
    ['cluster/synced', 'from the Kubernetes API'], ['cluster/from-disk', 'stale, as of 1d 2h ago'], ['cluster/no-kubeconfig', 'the Kubernetes API has not been read'],
    ['cluster/autopath-off', 'autopath is off: the Kubernetes API denies the right to list pods'], ['all-well', 'by 172.30.0.10'],
  ]) {
    assert.ok(text(clusterCard(control(name))).includes(part), `${name}: ${text(clusterCard(control(name)))}`);
  }
});

test('node and traffic', () => {
  const node = text(nodeCard(control('busy')));
  for (const part of ['127.0.0.1:53: address already in use', '10.0.0.5:53 udp+tcp', 'everyone', 'left alone: the configuration has errors', 'permissive, unconfined_service_t', 'running for 3d 4h']) {
    assert.ok(node.includes(part), `${part} in ${node}`);
  }
  assert.ok(text(nodeCard(control('dbus'))).includes('set by SetDomainServers by openshift'));
  const traffic = text(trafficCard(control('busy')));
  for (const part of ['91.4 % of queries answered from it', '6 refused: client network not allowed', 'client above its share: 10.128.0.7 (shop/web-0)', '5 panics']) {
    assert.ok(traffic.includes(part), `${part} in ${traffic}`);
  }
  assert.match(text(slowCard(control('busy'))), /db\.corp\.example\. A 4000 ms 12 SERVFAIL no response from 172\.16\.0\.53/);
  assert.equal(slowCard(control('all-well')), null);
});

test('doctor: problems first, each with its fix', () => {
  const report = golden('internal/admin/doctor/testdata/report.json');
  assert.equal(headline(report).words, '3 problems, 2 warnings');
  const card = doctorCard({ report, at: Date.now() });
  const items = find(card, 'nd-finding');
  assert.equal(items.length, report.findings.length);
  assert.match(text(items[0]), /^Problem: node-dns is not running: it is stopped .*Fix: systemctl start node-dns$/);
  assert.equal(find(card, 'nd-fix').length, 5);
  const warned = { findings: [...report.findings, ...report.findings.filter((f) => f.level === 'warn')] };
  assert.match(text(doctorCard({ report: warned, at: 0 })), /3 problems, 4 warnings.*2 more warnings.*18 passed checks/);
  assert.equal(headline({ findings: report.findings.filter((f) => f.level === 'ok') }).words, 'No problems');
  assert.doesNotMatch(text(card), hostile);
  assert.ok(text(card).includes('dns\\x1b[2Jmasq'));
  assert.match(text(doctorCard({ report: { kind: 'Error', error: 'it is broken' } })), /it is broken/);
});

test('lookup: the words for node-dns', () => {
  assert.deepEqual(lookupArguments({ name: '--all', type: 'MX', namespace: 'shop' }), ['query', '--output=json', '--trace', '--type=MX', '--namespace=shop', '--', '--all']);
  assert.deepEqual(lookupArguments({ name: 'www', type: '', namespace: '' }), ['query', '--output=json', '--trace', '--', 'www']);
});

test('lookup: the answer, its route and its server', () => {
  for (const [name, ...parts] of [
    ['found', 'www.example. found', 'From 10.0.0.2 (upstream nameserver, set by NetworkManager eth0), in 1.20 ms, from the cache, 1m 5s old', 'web.example. 60 A 192.0.2.80', '2 names tried', 'built-in cluster resolver'],
    ['the-first-one-fails', 'kubernetes.default.svc.cluster.local. failed (SERVFAIL)', 'From no server', 'EDE 22 (No Reachable Authority): no response from 172.30.0.10 (timed out)', '2 names tried'],
    ['failed-before', 'EDE 6 (DNSSEC Bogus)', 'from the cache'],
    ['as-a-pod', 'refused (REFUSED)', 'From node-dns itself', 'EDE 18 (Prohibited): queries from this network are not allowed'],
    ['nobody-answers', 'no answer: timed out', '10.0.0.3 over UDP (asked directly)'],
    ['traced', 'www.example. does not exist (NXDOMAIN)', '1 name tried', '250 ms asks 10.0.0.2 over UDP'],
  ]) {
    const words = text(lookupCard({ lookup: control(`lookup/${name}`) }));
    parts.forEach((part) => assert.ok(words.includes(part), `${name}: ${part} in ${words}`));
  }
  assert.equal(lastStep(control('lookup/found')).name, 'www.example.');
  assert.doesNotMatch(text(lookupCard({ lookup: control('lookup/hostile') })), hostile);
  assert.equal(text(lookupCard({})), '');
});

test('lookup: one type has an answer, and the other one fails', () => {
  const lookup = control('lookup/found');
  const step = lookup.steps.at(-1);
  const [answer] = step.answers;
  step.answers = [answer, { ...answer, type: 'AAAA', rcode: 'SERVFAIL', answer: [], extendedErrors: [{ code: 22, name: 'No Reachable Authority' }] }];
  const card = lookupCard({ lookup });
  assert.match(text(card), /www\.example\. found From .* AAAA: failed \(SERVFAIL\) EDE 22 \(No Reachable Authority\)/);
  assert.equal(find(card, 'pf-m-warning').length, 1);
  step.answers[1] = { ...answer, type: 'AAAA', rcode: 'NOERROR', answer: [], extendedErrors: [] };
  assert.equal(find(lookupCard({ lookup }), 'pf-m-success').length, 1, 'a name without AAAA is fine');
});

test('flush: no name is a flag, and an empty one flushes nothing', () => {
  const flush = ['cache', 'flush', '--output=json'];
  for (const [part, name, ...options] of [
    ['name', '--all', '--', '--all'], ['name', '', '--', ''], ['zone', '--all', '--zone=--all'], ['zone', '', '--zone='],
    ['negative', 'x', '--negative'], ['all', '', '--all'],
  ]) {
    assert.deepEqual(flushArguments({ part, name }), [...flush, ...options]);
  }
});

test('fields that the JSON omits while they are empty', () => {
  const status = control('dbus');
  status.dbus.names.forEach((name) => Object.assign(name, { owned: false, why: undefined }));
  delete status.dbus.serversBy;
  assert.doesNotMatch(text(nodeCard(status)), /undefined/);
  const lookup = control('lookup/traced');
  lookup.steps[0].answers.forEach((answer) => Object.assign(answer, { by: { who: 'upstream', cached: false, stale: false } }));
  assert.match(text(lookupCard({ lookup })), /From an upstream nameserver \(upstream nameserver\), in/);
});

test('queries: as they were answered', () => {
  const events = file('internal/admin/control/testdata/monitor.json').trim().split('\n').map((line) => JSON.parse(line));
  const none = { queries: [], lost: 0 };
  const words = text(queriesCard({ ...events.reduce(withEvent, none), isRunning: true }));
  for (const part of ['1 235 808 queries not shown', 'web.shop.svc.cluster.local. A NOERROR cache 0.05 ms', 'api.example.com. AAAA NOERROR 10.0.0.2 9.80 ms', '\\x1b[2J10.0.0.2', 'shop/web-7d9f4b5c6-x2x4z', 'unreadable no response refused']) {
    assert.ok(words.includes(part), `${part} in ${words}`);
  }
  assert.doesNotMatch(words, hostile);
  const flood = [...events, ...Array.from({ length: 1000 }, () => ({ kind: 'Change', change: 'x' }))].reduce(withEvent, none);
  assert.deepEqual(flood, events.reduce(withEvent, none), 'changes displace no query');
  const lost = Array.from({ length: 1000 }, () => [{ kind: 'Query', name: 'a.' }, { kind: 'Lost', queries: 2 }]).flat().reduce(withEvent, none);
  assert.deepEqual([lost.queries.length, lost.lost], [100, 2000]);
  assert.deepEqual(monitorArguments({ name: '-x', rcode: 'SERVFAIL' }), ['monitor', '--output=json', '--count=100', '--name=-x', '--rcode=SERVFAIL']);
});

test('events: the journal and the changes of servers, the latest first', () => {
  const entry = (seconds, priority, condition, MESSAGE) => (
    { __REALTIME_TIMESTAMP: `${Date.parse('2026-11-22T14:30:00Z') * 1000 + seconds * 1e6}`, PRIORITY: `${priority}`, NODE_DNS_CONDITION: condition, MESSAGE });
  const entries = [entry(0, 4, 'upstream-down', 'upstream down'), entry(1, 6, 'upstream-up', 'upstream up'), entry(2, 3, 'died', [0x61, 0xff])];
  assert.deepEqual(entries.map((e) => eventOf(e).level), ['warn', 'ok', 'fail']);
  assert.deepEqual(eventOf(entries[2]).details, ['a\ufffd']);
  const line = 'level=WARN msg="upstream \\"x\\" down" server=10.0.0.3 error="i/o timeout" condition=upstream-down';
  assert.deepEqual(eventOf(entry(0, 4, 'upstream-down', line)).details, ['server=10.0.0.3 error="i/o timeout"']);
  const words = text(eventsCard({ entries, history: control('views/history') }));
  for (const part of ['origin-dns-dispatcher: eth0 dhcp4-change', 'upstream: 10.0.0.2:53 10.0.0.3:53 → 10.0.0.2:53, set by NetworkManager eth0', 'home.: none → no such names', 'corp.example.: 10.0.0.2:53 → none', 'and 3 more domains']) {
    assert.ok(words.includes(part), `${part} in ${words}`);
  }
  assert.ok(words.indexOf('died') < words.indexOf('upstream up'), words);
  for (const name of ['history-empty', 'history-full']) {
    assert.ok(changesOf(control(`views/${name}`)).length <= 2);
  }
  assert.doesNotMatch(text(eventsCard({ entries: [], history: control('views/history-hostile') })), hostile);
  assert.match(text(eventsCard({ entries: [], error: { error: 'denied' } })), /The journal is not shown: denied/);
});

test('events: fields that are missing, repeated, or no text', () => {
  for (const [entry, what, details] of [
    [{}, '', ''],
    [{ MESSAGE: null, NODE_DNS_CONDITION: null, PRIORITY: 'x', __REALTIME_TIMESTAMP: 'x' }, '', ''],
    [{ MESSAGE: ['first', 'second'], NODE_DNS_CONDITION: ['died', 'ready'] }, 'died', 'first'],
    [{ MESSAGE: [[0x61, 0x1b], 'second'], NODE_DNS_CONDITION: [0x64, 0x69, 0x65, 0x64] }, 'died', 'a\u001b'],
    [{ MESSAGE: 5, NODE_DNS_CONDITION: {} }, '', '5'],
    [5, '', ''],
  ]) {
    const event = eventOf(entry);
    assert.deepEqual([event.what, event.details], [what, [details]], JSON.stringify(entry));
    assert.doesNotMatch(text(eventsCard({ entries: [entry] })), /NaN|undefined|\[object/);
  }
});

test('events: the page asks for every condition of the catalog', () => {
  const catalog = [...file('packaging/journal/node-dns.catalog').matchAll(/^-- ([0-9a-f]{32})\nSubject: DNS of this node: (.*)$/gm)];
  assert.deepEqual(conditions, Object.fromEntries(catalog.map(([, id, name]) => [id, name.replaceAll(' ', '-')])));
  const argv = journalArguments();
  assert.ok(argv.includes(`--lines=${mostEvents}`) && catalog.every(([, id]) => argv.includes(`MESSAGE_ID=${id}`)));
});

// JSON with values that the page does not expect: from another version of node-dns, or with text
// from the network.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { doctorCard } from '../../../cockpit/cards/doctor.js';
import { eventsCard } from '../../../cockpit/cards/events.js';
import { lookupCard } from '../../../cockpit/cards/lookup.js';
import { clusterCard, nodeCard } from '../../../cockpit/cards/node.js';
import { guarded } from '../../../cockpit/cards/parts.js';
import { queriesCard, withEvent } from '../../../cockpit/cards/queries.js';
import { serversCard } from '../../../cockpit/cards/servers.js';
import { stateCard, verdict } from '../../../cockpit/cards/state.js';
import { slowCard, trafficCard } from '../../../cockpit/cards/traffic.js';
import { h } from '../../../cockpit/lib/dom.js';
import { control, file, golden } from './read.mjs';
import { text } from './tree.mjs';

// An object that looks like a node of the page's tree.
const forged = { tag: 'iframe', properties: { src: 'https://attacker.example/' }, children: [] };
const hostileText = '<img src=x onerror=alert(1)>\u001b[2J\u202e\u0000\ud800';

// variantsOf returns copies of a JSON value, each with one field replaced or removed, or the first
// element of a list.
function variantsOf(value) {
  if (value === null || typeof value !== 'object') {
    return [];
  }
  return Object.keys(Array.isArray(value) ? value.slice(0, 1) : value).flatMap((key) => {
    const having = (field) => {
      const copy = Array.isArray(value) ? [...value] : { ...value };
      copy[key] = field;
      return copy;
    };
    const { [key]: _, ...without } = value;
    return [without, ...[null, forged, [forged], 5, hostileText].map(having), ...variantsOf(value[key]).map(having)];
  });
}

// elementsOf returns the names of all elements in trees.
function elementsOf(...trees) {
  return h('', null, trees).children.flatMap((node) => (typeof node === 'string' ? [] : [node.tag, ...elementsOf(node.children)]));
}

test('no value of a document stops the page, or becomes markup', () => {
  const monitor = file('internal/admin/control/testdata/monitor.json').trim().split('\n').map((line) => JSON.parse(line));
  const journal = { __REALTIME_TIMESTAMP: '1795357800000000', PRIORITY: '4', NODE_DNS_CONDITION: 'upstream-down', MESSAGE: 'level=WARN msg=x' };
  for (const [name, document, ...cards] of [
    ...['busy', 'dbus', 'cluster/synced'].map((status) => [
      status, control(status), serversCard, clusterCard, trafficCard, nodeCard, slowCard, (s) => stateCard({ status: s }), (s) => [verdict({ status: s }).title]]),
    ['doctor', golden('internal/admin/doctor/testdata/report.json'), (report) => doctorCard({ report, at: 0 }), (report) => stateCard({ status: control('all-well'), report })],
    ['lookup', control('lookup/found'), (lookup) => lookupCard({ lookup })],
    ['trace', control('lookup/traced'), (lookup) => lookupCard({ lookup })],
    ['history', control('views/history'), (history) => eventsCard({ entries: [], history })],
    ['journal', journal, (entry) => eventsCard({ entries: [entry] })],
    ['monitor', monitor.slice(0, 3), (events) => queriesCard(events.reduce(withEvent, { queries: [], lost: 0 }))],
  ]) {
    for (const variant of variantsOf(document)) {
      for (const card of cards) {
        const shown = guarded(card, variant);
        assert.doesNotMatch(text(shown), /[\u0000-\u001f\u202e]/, name);
        assert.ok(!elementsOf(shown).includes('iframe'), name);
      }
    }
  }
});

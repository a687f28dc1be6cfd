// What changed recently: entries of the journal with a MESSAGE_ID of node-dns, and changes of servers.

import { h } from '../lib/dom.js';
import { time } from '../lib/words.js';
import { label, lines, quiet, table } from './parts.js';
import { conditions } from './conditions.js';

export const mostEvents = 30;

// journalArguments are those of journalctl(1): what the units log of the conditions, and what comes. A line of a query has no condition.
export function journalArguments() {
  const units = ['node-dns.service', 'node-dns-apply.service', 'NetworkManager-dispatcher.service'];
  return [
    'journalctl', '--output=json', '--output-fields=MESSAGE,PRIORITY,NODE_DNS_CONDITION', `--lines=${mostEvents}`, '--follow', '--quiet',
    ...units.map((unit) => `_SYSTEMD_UNIT=${unit}`), ...Object.keys(conditions).map((id) => `MESSAGE_ID=${id}`),
  ];
}

const good = ['ready', 'upstream-up', 'upstreams-up', 'problem-solved', 'cluster-synced', 'limit-over'];

// eventOf reads an entry of the journal. A text that is no UTF-8 is a list of octets there.
export function eventOf(entry) {
  const message = Array.isArray(entry.MESSAGE) ? new TextDecoder().decode(new Uint8Array(entry.MESSAGE)) : String(entry.MESSAGE ?? '');
  const what = entry.NODE_DNS_CONDITION ?? '';
  const priority = Number(entry.PRIORITY ?? 6);
  const unusual = priority === 4 ? 'warn' : 'fail';
  return {
    at: Number(entry.__REALTIME_TIMESTAMP ?? 0) / 1000,
    level: priority > 4 ? normal(what) : unusual,
    what,
    details: [detailsOf(message)],
  };
}

// detailsOf is a line of the log (level=WARN msg="upstream down" server=10.0.0.3 condition=upstream-down) without what the page shows
// beside it. A line of another form stays as it is.
function detailsOf(message) {
  const [, rest] = message.match(/^level=\w+ msg=(?:"(?:[^"\\]|\\.)*"|\S*) ?(.*)$/s) ?? [message, message];
  return rest.replace(/ ?condition=[\w-]+$/, '');
}

function normal(condition) {
  return good.includes(condition) ? 'ok' : 'none';
}

// changesOf reads `node-dns servers --history`.
export function changesOf(history) {
  return (history?.changes ?? []).map((change) => ({
    at: Date.parse(change.time),
    level: 'none',
    what: 'servers-changed',
    details: [change.by, ...differences(change)],
  }));
}

function differences({ differences: all, more }) {
  const lines = (all ?? []).map(({ domain, before, after, source }) => {
    const name = domain === '.' ? 'upstream' : domain;
    return `${name}: ${target(before)} → ${target(after)}${source ? `, set by ${source}` : ''}`;
  });
  return more > 0 ? [...lines, `and ${more} more domains`] : lines;
}

function target(route) {
  if (!route) {
    return 'none';
  }
  return route.local ? 'no such names' : (route.servers ?? []).join(' ') || 'none';
}

// eventsCard shows both, the latest first.
export function eventsCard({ entries, history, error }) {
  const events = [...entries.map(eventOf), ...changesOf(history)].sort((a, b) => b.at - a.at).slice(0, mostEvents);
  return [
    events.length === 0 && h('p', null, quiet('No events.')),
    events.length > 0 && table('Events', ['Time', 'Event', 'Details'], events, (event) => [
      time(event.at), label(event.level, event.what.replaceAll('-', ' ')), lines(event.details),
    ]),
    error && h('p', { class: 'nd-gap' }, quiet(`The journal is not shown: ${error.error}`)),
  ];
}

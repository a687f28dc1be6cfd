// Recent events: journal entries with a MESSAGE_ID of node-dns, and changes of servers.

import { h } from '../lib/dom.js';
import { time } from '../lib/words.js';
import { label, lines, quiet, table } from './parts.js';
import { conditions } from './conditions.js';

export const mostEvents = 30;

// journalArguments returns the command that prints the last events and follows new ones. Lines of
// the query log have no MESSAGE_ID.
export function journalArguments() {
  const units = ['node-dns.service', 'node-dns-apply.service', 'NetworkManager-dispatcher.service'];
  return [
    'journalctl', '--output=json', '--output-fields=MESSAGE,PRIORITY,NODE_DNS_CONDITION', `--lines=${mostEvents}`, '--follow', '--quiet',
    ...units.map((unit) => `_SYSTEMD_UNIT=${unit}`), ...Object.keys(conditions).map((id) => `MESSAGE_ID=${id}`),
  ];
}

const good = ['ready', 'upstream-up', 'upstreams-up', 'problem-solved', 'cluster-synced', 'limit-over'];

// eventOf reads an entry of the journal.
export function eventOf(entry) {
  const what = fieldOf(entry.NODE_DNS_CONDITION);
  return {
    at: Number(entry.__REALTIME_TIMESTAMP) / 1000 || 0,
    level: levelOf(Number(fieldOf(entry.PRIORITY) || 6), what),
    what,
    details: [detailsOf(fieldOf(entry.MESSAGE))],
  };
}

// fieldOf returns the text of a field. In JSON, journalctl(1) writes text that is not UTF-8 as a
// list of octets, a field that occurs several times as a list of its values (the first one wins),
// and a text above 4096 octets as null.
function fieldOf(value) {
  if (Array.isArray(value)) {
    return typeof value[0] === 'number' ? new TextDecoder().decode(new Uint8Array(value)) : fieldOf(value[0]);
  }
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}

// levelOf takes a priority as in syslog(3).
function levelOf(priority, condition) {
  if (priority === 4) {
    return 'warn';
  }
  if (priority < 4) {
    return 'fail';
  }
  return good.includes(condition) ? 'ok' : 'none';
}

// detailsOf returns a log line (level=WARN msg="upstream down" server=10.0.0.3
// condition=upstream-down) without level, msg and condition, which the page shows in other columns.
// Lines of another format are unchanged.
function detailsOf(message) {
  const [, rest] = message.match(/^level=\w+ msg=(?:"(?:[^"\\]|\\.)*"|\S*) ?(.*)$/s) ?? [message, message];
  return rest.replace(/ ?condition=[\w-]+$/, '');
}

// changesOf converts the output of `node-dns servers --history`.
export function changesOf(history) {
  return (history?.changes ?? []).map((change) => ({
    at: Date.parse(change.time) || 0,
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

// eventsCard shows journal entries and changes of servers, the latest first.
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

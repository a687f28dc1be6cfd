// Live queries, up to a limit: a busy node has more than a browser can show.

import { h } from '../lib/dom.js';
import { milliseconds, plural, time } from '../lib/words.js';
import { failure, label, lines, nothing, notice, quiet, table } from './parts.js';

export const mostQueries = 100;

// monitorArguments returns the arguments of node-dns. The daemon applies the filters.
export function monitorArguments({ name, rcode }) {
  const options = ['monitor', '--output=json', `--count=${mostQueries}`];
  if (name) {
    options.push(`--name=${name}`);
  }
  if (rcode) {
    options.push(`--rcode=${rcode}`);
  }
  return options;
}

const levels = { failed: 'fail', refused: 'fail', stale: 'warn' };
const names = { hit: 'cache', stale: 'cache, expired', cluster: 'cluster', local: 'local', failed: 'failed', refused: 'refused' };

// withEvent adds an event of the monitor to the queries, the latest first, or to the number of lost
// ones. It ignores changes, which pass every filter and are in the events card.
export function withEvent({ queries, lost }, event) {
  switch (event.kind) {
    case 'Query':
      return { queries: [event, ...queries].slice(0, mostQueries), lost };
    case 'Lost':
      return { queries, lost: lost + (event.queries ?? 0) };
  }
  return { queries, lost };
}

// queriesCard takes the result of withEvent, whether the monitor is running, and its error.
export function queriesCard({ queries, lost, isRunning, error }) {
  return [
    error && failure(error),
    lost > 0 && notice('warn', `${plural(lost, 'query', 'queries')} not shown: they came too fast`),
    queries.length === 0 && isRunning && h('p', null, quiet('Waiting for queries …')),
    queries.length > 0 && table('Queries', ['Time', 'Client', 'Name', 'Result', 'Answered by', 'Took'], queries, (query) => [
      time(query.time),
      lines(query.client, query.pod && quiet(query.pod)),
      [h('strong', null, query.name ?? 'unreadable'), ` ${query.type ?? ''}`],
      lines(label(levelOf(query), query.rcode || 'no response'), query.why && quiet(query.why)),
      query.server || names[query.by] || query.by,
      query.tookNanoseconds === undefined ? nothing : milliseconds(query.tookNanoseconds),
    ]),
  ];
}

function levelOf({ by, rcode }) {
  if (levels[by]) {
    return levels[by];
  }
  return { NOERROR: 'ok', NXDOMAIN: 'none' }[rcode] ?? 'fail';
}

// Queries of the last minute, the cache, limits, and slow names.

import { h } from '../lib/dom.js';
import { age, duration, milliseconds, number, percent, plural } from '../lib/words.js';
import { facts, label, lines, quiet, table } from './parts.js';

export function trafficCard(status) {
  const { cache, queries, lastMinute: minute } = status;
  const limits = limitsOf(queries.limits);
  return facts(
    minute && [minute.overNanoseconds < 60e9 ? `Last ${duration(minute.overNanoseconds / 1e9)}` : 'Last minute', lines(
      plural(minute.queries, 'query', 'queries'),
      minute.responses > 0 && quiet(`half answered within ${bound(minute.p50Nanoseconds)}, 99 % within ${bound(minute.p99Nanoseconds)}`),
      minute.responses > 0 && quiet(`NXDOMAIN ${percent(minute.nxdomain, minute.responses)}`),
      minute.servfail > 0 && label('warn', `${number(minute.servfail)} SERVFAIL`),
      (minute.servers ?? []).map((s) => quiet(`${s.address}: ${number(s.failures)} of ${number(s.queries)} without a response`)),
    )],
    ['Since the start', `${number(queries.udp)} over UDP, ${number(queries.tcp)} over TCP`],
    ['Cache', cache.size > 0 ? lines(
      `${number(cache.entries)} of ${number(cache.size)} entries`, quiet(`${percent(cache.hits, cache.hits + cache.misses)} of queries answered from it`),
      cache.evictions > 0 && quiet(`${number(cache.evictions)} entries evicted`),
    ) : 'off'],
    limits.length > 0 && ['Limits reached', lines(limits)],
    queries.panics > 0 && ['Defects', label('fail', plural(queries.panics, 'panic'))],
    status.watched && ['Watched by', lines(
      status.watched.monitors > 0 && plural(status.watched.monitors, 'monitor'), status.watched.logQueries && 'query log',
    )],
  );
}

// flushArguments returns the arguments of node-dns. part is name, zone, negative or all; the name
// counts for the first two. After --, a name that begins with "-" is not a flag.
export function flushArguments({ part, name }) {
  const options = { name: ['--', name], zone: [`--zone=${name}`], negative: ['--negative'], all: ['--all'] }[part];
  return ['cache', 'flush', '--output=json', ...options];
}

function bound(nanoseconds) {
  return nanoseconds > 0 ? milliseconds(nanoseconds) : 'more than 8 s';
}

function limitsOf(limits) {
  const words = [
    [limits.strangers, 'refused: client network not allowed'],
    [limits.hasty, 'refused: clientRateLimit'],
    [limits.crowding, 'failed: too many pending queries of one client'],
    [limits.costly, 'failed: too much upstream traffic for one client'],
    [limits.full, 'failed: too many pending queries'],
    [limits.upstream, 'failed: dnsForwardMax, or no socket'],
    [limits.silenced, 'refusals over UDP above their limit'],
    [limits.tcpRefused, 'connections refused'],
    [limits.tcpIdle, 'idle connections closed for new ones'],
    [limits.noDescriptors, 'connections refused: no file descriptor'],
  ].filter(([count]) => count > 0).map(([count, what]) => `${number(count)} ${what}`);
  const client = (address, pod) => (pod ? `${address} (${pod})` : address);
  return words.concat(
    limits.crowder ? quiet(`client above its share: ${client(limits.crowder, limits.crowderPod)}`) : [],
    limits.stranger ? quiet(`client not allowed: ${client(limits.stranger, limits.strangerPod)}`) : [],
  );
}

// slowCard returns null if no name was slow, or if the user may not see slow names.
export function slowCard(status) {
  const names = status.slowNames ?? [];
  if (names.length === 0) {
    return null;
  }
  return table('Slow names', ['Name', 'Worst', 'Times', 'Answered by', 'Last', 'Client'], names.slice(0, 10), (slow) => [
    [h('strong', null, slow.name), ` ${slow.type}`],
    milliseconds(slow.worstNanoseconds), number(slow.count),
    lines(slow.by === 'failed' ? label('fail', slow.rcode || 'no answer') : slow.by, slow.why && quiet(slow.why)),
    `${age(slow.at, status.now)} ago`, lines(slow.client, slow.pod && quiet(slow.pod)),
  ]);
}

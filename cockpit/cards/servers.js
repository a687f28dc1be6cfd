// Servers, the names that they are asked for, and the source of each setting.

import { h } from '../lib/dom.js';
import { age, milliseconds, number } from '../lib/words.js';
import { folded, label, lines, list, nothing, quiet, table } from './parts.js';

// rowsOf returns the domains with their servers: upstream nameservers first, then the other routes,
// then cluster domains without a route. A row has domain, source, and server (a Server), or in
// place of the server name, level and state.
export function rowsOf(status) {
  const rows = [];
  for (const route of [...(status.routes ?? [])].sort((a, b) => (b.domain === '.') - (a.domain === '.'))) {
    const { domain } = route;
    const source = sourceOf(route, status.cluster);
    if (route.local) {
      rows.push({ domain, source, name: 'none', level: 'none', state: 'no such names' });
    } else if (!route.servers?.length) {
      rows.push({ domain, source, name: 'none', level: 'fail', state: 'names fail' });
    }
    for (const server of route.servers ?? []) {
      rows.push({ domain, source, server });
    }
  }
  return rows.concat(zonesOf(status));
}

// zonesOf returns rows for the cluster's domains that have no route.
function zonesOf({ cluster, routes }) {
  if (!cluster?.domain) {
    return [];
  }
  const hasRoute = (domain) => (routes ?? []).some((route) => route.domain === domain);
  return [cluster.domain, ...(cluster.reverseZones ?? [])].flatMap((domain) => {
    if (cluster.resolver) {
      const isGood = cluster.resolver.phase === 'synced';
      return [{ domain, name: 'built in', level: isGood ? 'ok' : 'warn', state: cluster.resolver.phase, source: cluster.source }];
    }
    return hasRoute(domain) ? [] : [{ domain, name: 'none', level: 'fail', state: 'names fail', source: cluster.source }];
  });
}

function sourceOf(route, cluster) {
  return route.source === 'cluster' && cluster?.source ? cluster.source : route.source;
}

// healthOf returns level, state and error of a row. now is the time of the status.
export function healthOf({ server, level, state }, now) {
  switch (server?.state) {
    case undefined:
      return { level, state };
    case 'up':
      return { level: 'ok', state: 'up' };
    case 'down':
      return { level: 'fail', state: `down for ${age(server.since, now)}`, error: server.error };
  }
  return server.queries > 0 ? { level: 'warn', state: 'no answer yet' } : { level: 'none', state: 'not asked yet' };
}

// transportOf returns the protocol for a server, or '' if it has no choice.
function transportOf(server) {
  if (server.udpSize > 0 && (!server.transport || server.transport === 'udp')) {
    return `UDP, TCP above ${server.udpSize} bytes`;
  }
  return server.transport ? server.transport.replace(/^(udp|tls)/, (word) => word.toUpperCase()) : '';
}

// cellsOf returns the cells of a row.
function cellsOf(row, now) {
  const { level, state, error } = healthOf(row, now);
  const domain = row.domain === '.' ? [h('strong', null, 'all other names'), quiet(' (upstream)')] : h('strong', null, row.domain);
  if (!row.server) {
    return [domain, row.name, label(level, state), nothing, nothing, nothing, row.source];
  }
  const { server } = row;
  const transport = transportOf(server);
  return [
    domain, lines(server.address, transport && quiet(`over ${transport}`)), lines(label(level, state), error && quiet(error)),
    server.rttNanoseconds > 0 ? milliseconds(server.rttNanoseconds) : nothing, number(server.routeQueries), number(server.routeFailures), row.source,
  ];
}

export function serversCard(status) {
  const rows = rowsOf(status);
  return [
    rows.some((row) => row.domain === '.') ? null : h('p', { class: 'nd-gap' }, label('fail', 'No upstream nameserver is known')),
    rows.length > 0 && table('Servers', ['Names', 'Server', 'State', 'Time', 'Queries', 'Failed', 'Set by'], rows, (row) => cellsOf(row, status.now)),
    others('lost', 'Set, but another source wins', status.overridden ?? [], (lost) => [
      h('strong', null, lost.domain), ` ${lost.local ? 'no such names' : (lost.servers ?? []).join(' ')} `, quiet(`from ${lost.source}: ${lost.why}`),
    ]),
    others('refused', 'Ignored as upstreams', status.refused ?? [], (refused) => [
      h('strong', null, refused.server), ` ${refused.domain ?? ''} `, quiet(`from ${refused.source}: ${refused.why}`),
    ]),
  ];
}

function others(key, title, items, show) {
  return items.length > 0 && folded(key, `${title} (${number(items.length)})`, list('pf-v5-c-list', items, show));
}

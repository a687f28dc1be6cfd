// Which servers are asked for which names, and who set them.

import { h } from '../lib/dom.js';
import { age, milliseconds, number } from '../lib/words.js';
import { folded, label, lines, nothing, quiet, table } from './parts.js';

// rowsOf are the domains and their servers: the upstream nameservers first, then the other routes, then domains without a server.
export function rowsOf(status) {
  const rows = [];
  for (const route of [...(status.routes ?? [])].sort((a, b) => (b.domain === '.') - (a.domain === '.'))) {
    const common = { domain: route.domain, source: sourceOf(route, status.cluster) };
    if (route.local) {
      rows.push({ ...common, server: 'none', level: 'none', state: 'no such names' });
    } else if (!route.servers?.length) {
      rows.push({ ...common, server: 'none', level: 'fail', state: 'names fail' });
    }
    for (const server of route.servers ?? []) {
      rows.push({ ...common, ...health(server, status.now), server: server.address });
    }
  }
  return rows.concat(zonesOf(status));
}

// zonesOf are the cluster's domains that no server is asked for.
function zonesOf({ cluster, routes }) {
  if (!cluster?.domain) {
    return [];
  }
  const hasRoute = (domain) => (routes ?? []).some((route) => route.domain === domain);
  return [cluster.domain, ...(cluster.reverseZones ?? [])].flatMap((domain) => {
    if (cluster.resolver) {
      const isGood = cluster.resolver.phase === 'synced';
      return [{ domain, server: 'built in', level: isGood ? 'ok' : 'warn', state: cluster.resolver.phase, source: cluster.source }];
    }
    return hasRoute(domain) ? [] : [{ domain, server: 'none', level: 'fail', state: 'names fail', source: cluster.source }];
  });
}

function sourceOf(route, cluster) {
  return route.source === 'cluster' && cluster?.source ? cluster.source : route.source;
}

function health(server, now) {
  const numbers = {
    time: server.rttNanoseconds > 0 ? milliseconds(server.rttNanoseconds) : nothing,
    queries: number(server.routeQueries),
    failed: number(server.routeFailures),
    over: overOf(server),
  };
  switch (server.state) {
    case 'up':
      return { ...numbers, level: 'ok', state: 'up' };
    case 'down':
      return { ...numbers, level: 'fail', state: `down for ${age(server.since, now)}`, error: server.error };
  }
  return server.queries > 0 ? { ...numbers, level: 'warn', state: 'no answer yet' } : { ...numbers, level: 'none', state: 'not asked yet' };
}

// overOf is how the server is asked, if there is a choice.
function overOf(server) {
  if (server.udpSize > 0 && (!server.transport || server.transport === 'udp')) {
    return `UDP, TCP above ${server.udpSize} bytes`;
  }
  return server.transport ? server.transport.replace(/^(udp|tls)/, (word) => word.toUpperCase()) : '';
}

export function serversCard(status) {
  const rows = rowsOf(status);
  return [
    rows.some((row) => row.domain === '.') ? null : h('p', { class: 'nd-gap' }, label('fail', 'No upstream nameserver is known')),
    rows.length > 0 && table('Servers', ['Names', 'Server', 'State', 'Time', 'Queries', 'Failed', 'Set by'], rows.map((row) => [
      row.domain === '.' ? [h('strong', null, 'all other names'), quiet(' (upstream)')] : h('strong', null, row.domain),
      lines(row.server, row.over && quiet(`over ${row.over}`)),
      lines(label(row.level, row.state), row.error && quiet(row.error)),
      row.time ?? nothing, row.queries ?? nothing, row.failed ?? nothing, row.source,
    ])),
    others('lost', 'Set, but another source wins', (status.overridden ?? []).map((lost) => [
      h('strong', null, lost.domain), ` ${lost.local ? 'no such names' : (lost.servers ?? []).join(' ')} `, quiet(`from ${lost.source}: ${lost.why}`),
    ])),
    others('refused', 'Ignored as upstreams', (status.refused ?? []).map((refused) => [
      h('strong', null, refused.server), ` ${refused.domain ?? ''} `, quiet(`from ${refused.source}: ${refused.why}`),
    ])),
  ];
}

function others(key, title, items) {
  return items.length > 0 && folded(key, `${title} (${items.length})`, h('ul', { class: 'pf-v5-c-list' }, items.map((item) => h('li', null, item))));
}

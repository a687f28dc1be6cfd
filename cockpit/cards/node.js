// The node, the daemon, and the source of cluster names.

import { h } from '../lib/dom.js';
import { age, plural } from '../lib/words.js';
import { facts, folded, label, lines, list, quiet } from './parts.js';

export function clusterCard({ cluster, routes, now }) {
  if (!cluster?.domain) {
    return h('p', null, 'The cluster domain is unknown.');
  }
  const resolver = cluster.resolver;
  return facts(
    ['Domain', cluster.domain],
    ['Reverse zones', cluster.reverseZones?.join(', ')],
    ['Answered', answered(cluster, (routes ?? []).find((route) => route.domain === cluster.domain), now)],
    resolver && ['Kubernetes API', lines(
      label(resolver.phase === 'synced' ? 'ok' : 'warn', `${resolver.phase} for ${age(resolver.since, now)}`), resolver.server, resolver.error,
    )],
    resolver && ['Known', [
      plural(resolver.services, 'service'), plural(resolver.endpoints, 'endpoint'), plural(resolver.namespaces, 'namespace'),
      ...(resolver.imports ? [plural(resolver.imports, 'ServiceImport')] : []),
    ].join(', ')],
    resolver?.missingRights?.length > 0 && ['Missing rights', lines(label('fail', 'the Kubernetes API refuses'), ...resolver.missingRights)],
    resolver && ['Search lists', resolver.autopath?.on
      ? `walked on the node (autopath): ${plural(resolver.autopath.saved, 'query', 'queries')} saved` : `autopath is off: ${resolver.autopath?.why ?? ''}`],
    ['Set by', cluster.source],
  );
}

// answered returns the source of the answers for cluster names. route is that of the cluster
// domain; undefined if there is none.
function answered({ resolver }, route, now) {
  if (resolver?.fromDisk) {
    return label('warn', `stale, as of ${age(resolver.fromDisk, now)} ago`);
  }
  if (resolver && resolver.services + resolver.namespaces > 0) {
    return 'from the Kubernetes API';
  }
  if (route?.local) {
    return 'no such names';
  }
  if (route?.servers?.length > 0) {
    return `by ${route.servers.map((server) => server.address).join(', ')}`;
  }
  return label('fail', resolver ? 'SERVFAIL: the Kubernetes API has not been read' : 'SERVFAIL: no cluster DNS server is known');
}

export function nodeCard(status) {
  const { node, listeners, metrics, clients, resolvConf: file, selinux } = status;
  const notes = status.notes ?? [];
  const pending = file.pending ?? [];
  return [
    facts(
      ['Node', node.ip ? `${node.name} (${node.ip})` : node.name],
      ['Version', `${status.version}, running for ${age(status.started, status.now)}`],
      ['Listening', lines((listeners ?? []).map(listener), !(listeners?.length > 0) && label('fail', 'none'))],
      ['Clients', lines(clientsOf(clients), clients?.rateLimit > 0 && quiet(`${clients.rateLimit} queries per second each`))],
      [file.path, lines(
        file.ours ? 'managed by node-dns' : `not managed by node-dns${file.owner ? ` (${file.owner})` : ''}`,
        `nameserver ${(file.nameservers ?? []).join(' ') || 'none'}`, `search ${(file.search ?? []).join(' ') || 'none'}`,
        file.hold && label('warn', `left alone: ${file.hold}`),
        pending.length > 0 && label('warn', `to be written: ${pending.join(' ')}`),
        file.original && quiet(`original kept in ${file.original}`),
        file.dropIn && quiet(`systemd-resolved forwards to this node: ${file.dropIn}`),
      )],
      metrics?.address && ['Metrics', metrics.error ? label('fail', `${metrics.address}: ${metrics.error}`) : metrics.address],
      selinux && ['SELinux', selinux.domain ? `${selinux.mode}, ${selinux.domain}` : selinux.mode],
      status.dbus && ['D-Bus', busOf(status.dbus)],
    ),
    notes.length > 0 && folded('notes', `Notes (${notes.length})`, list('pf-v5-c-list', notes, (note) => note)),
  ];
}

function listener(at) {
  if (at.spare) {
    return `${at.address} is used by another program`;
  }
  if (at.error) {
    return label('fail', `${at.address}: ${at.error}`);
  }
  return `${at.address} ${[at.udp && 'udp', at.tcp && 'tcp'].filter(Boolean).join('+') || 'not bound'}`;
}

function clientsOf(clients) {
  if (clients?.allowFrom?.includes('all')) {
    return 'everyone';
  }
  return clients?.networks?.length > 0 ? clients.networks.join(', ') : 'only this host';
}

function busOf(bus) {
  if (bus.error) {
    return label('warn', bus.error);
  }
  return lines(
    (bus.names ?? []).map((name) => (name.owned ? `owns ${name.name}` : `does not own ${name.name}${name.why ? `: ${name.why}` : ''}`)),
    bus.servers?.length > 0 && `servers ${bus.servers.join(' ')}${bus.serversBy ? ` set by ${bus.serversBy}` : ''}`,
  );
}

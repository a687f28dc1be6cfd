// Whether DNS of this node works, and why not.

import { h } from '../lib/dom.js';
import { plural } from '../lib/words.js';
import { icon, quiet } from './parts.js';

// The share of failed answers of the last minute, and the least number of answers, from which on it is a reason.
const manyFailed = 0.2;
const someAnswers = 10;

// verdict takes what is known: status (a Status), failure (an Error in its place), unit (properties of systemd's), report (doctor's).
// It returns level (ok, warn, fail, none), title, and reasons, the worst first.
export function verdict({ status, failure, unit, report }) {
  const found = (report?.findings ?? []).filter((finding) => finding.level === 'fail');
  if (failure) {
    const { reasons, ...rest } = away(failure, unit ?? {});
    const causes = found.filter((finding) => finding.check !== 'daemon').map((finding) => finding.what);
    return { ...rest, reasons: rest.level === 'fail' ? [...causes, ...reasons] : reasons };
  }
  if (!status) {
    return { level: 'none', title: 'Querying node-dns …', reasons: [] };
  }
  const reasons = reasonsOf(status);
  if (!status.ready) {
    return { level: 'fail', title: 'DNS does not work: node-dns is not ready', reasons: reasons.length > 0 ? reasons : ['It is starting.'] };
  }
  const upstreams = upstreamsOf(status);
  if (upstreams.length > 0 && upstreams.every((server) => server.state === 'down')) {
    return { level: 'fail', title: 'No upstream nameserver answers', reasons };
  }
  if (reasons.length > 0) {
    return { level: 'warn', title: 'DNS works, with problems', reasons };
  }
  if (found.length > 0) {
    return { level: 'warn', title: `DNS answers, and the check found ${plural(found.length, 'problem')}`, reasons: found.map(({ what }) => what) };
  }
  return { level: 'ok', title: 'DNS works', reasons: [] };
}

// away is about a daemon that gave no status.
function away(failure, unit) {
  const reasons = [failure.error, ...(failure.hint ?? '').split('\n')].filter(Boolean);
  switch (true) {
    case failure.problem === 'not-found':
      return { level: 'fail', title: 'node-dns is not installed', reasons: ['Install the package node-dns of the same version as this page.'] };
    case failure.problem === 'access-denied' || failure.exitCode === 4:
      return { level: 'none', title: 'This user may not query node-dns', reasons };
    case failure.exitCode !== 3:
      return { level: 'fail', title: 'node-dns does not answer', reasons };
    case unit.ActiveState === 'activating' || unit.ActiveState === 'reloading':
      return { level: 'none', title: 'node-dns is starting', reasons: [] };
    case unit.ActiveState === 'failed':
      return { level: 'fail', title: 'node-dns has failed', reasons: [`systemd reports: ${unit.Result || 'failed'}`, ...reasons] };
    case unit.ActiveState === 'active':
      return { level: 'fail', title: 'node-dns runs but does not answer', reasons };
  }
  const isOff = unit.UnitFileState === 'disabled';
  return { level: 'fail', title: 'node-dns is stopped', reasons: isOff ? ['It does not start at boot: the unit is disabled.'] : [] };
}

// reasonsOf are those of `node-dns status --brief`, and failed answers.
export function reasonsOf(status) {
  const reasons = [];
  const told = new Set(); // the problem that stands for a server
  for (const route of status.routes ?? []) {
    for (const server of route.servers ?? []) {
      if (server.state === 'down') {
        const what = route.domain === '.' ? `Upstream nameserver ${server.address}` : `${server.address}, for ${route.domain},`;
        reasons.push(`${what} is down: ${server.error || 'no response'}`);
        told.add(`${server.address} (for ${route.domain}) is down: ${server.error ?? ''}`);
      }
    }
  }
  reasons.push(...(status.problems ?? []).filter((problem) => !told.has(problem)));
  const minute = status.lastMinute;
  if (minute && minute.responses >= someAnswers && minute.servfail / minute.responses >= manyFailed) {
    reasons.push(`${minute.servfail} of ${minute.responses} answers in the last minute were SERVFAIL.`);
  }
  return reasons;
}

// stateCard is the first thing on the page.
export function stateCard(known) {
  const { level, title, reasons } = verdict(known);
  return [
    h('div', { class: `nd-state-icon nd-${level}` }, icon(level)),
    h('div', { class: 'nd-state-words' },
      h('h2', { class: 'pf-v5-c-title pf-m-xl' }, title),
      reasons.length > 0 && h('ul', { class: 'nd-reasons' }, reasons.map((reason) => h('li', null, reason))),
      level === 'ok' && h('p', null, quiet(summary(known.status)))),
  ];
}

// summary is one sentence for a node that is well.
export function summary(status) {
  const upstreams = upstreamsOf(status);
  const up = upstreams.filter((server) => server.state === 'up').length;
  const parts = [`${up} of ${plural(upstreams.length, 'upstream nameserver')} answered recently`];
  const resolver = status.cluster?.resolver;
  if (resolver) {
    parts.push(`cluster names from the Kubernetes API (${resolver.phase})`);
  } else if (status.cluster?.servers?.length > 0) {
    parts.push(`cluster names from ${status.cluster.servers.join(', ')}`);
  }
  return `${parts.join('; ')}.`;
}

function upstreamsOf({ routes }) {
  return (routes ?? []).find((route) => route.domain === '.')?.servers ?? [];
}

// isRunning reports whether there is a daemon to restart; else there is one to start.
export function isRunning({ status, failure }) {
  return Boolean(status) && !failure;
}

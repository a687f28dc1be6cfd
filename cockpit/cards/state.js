// The first card: whether DNS of this node works, and why not.

import { h } from '../lib/dom.js';
import { plural, time } from '../lib/words.js';
import { icon, list, live, quiet } from './parts.js';

// SERVFAIL in the last minute is a problem from this share of the answers, if there are enough
// answers.
const manyFailed = 0.2;
const someAnswers = 10;

// Maximum number of reasons on the page.
const mostReasons = 10;

// Cockpit's codes for a connection that is lost or never existed.
const disconnections = ['disconnected', 'terminated', 'timeout', 'no-host', 'no-cockpit', 'authentication-failed', 'internal-error'];

// verdict takes status (a Status), failure (an Error, set while there is no new status), unit
// (systemd's properties of the unit, set after a failure) and report (of doctor). Each may be
// undefined. It returns level (ok, warn, fail, none), title, and reasons, the worst first. It never
// throws.
export function verdict(known) {
  try {
    return judge(known);
  } catch (error) { // the status lacks a field
    const reasons = ['Install node-dns and cockpit-node-dns of the same version.', String(error)];
    return { level: 'none', title: 'This page cannot read the status', reasons };
  }
}

function judge({ status, failure, unit, report }) {
  const found = (report?.findings ?? []).filter((finding) => finding.level === 'fail');
  if (failure) {
    const { reasons, ...rest } = away(failure, unit);
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

// away explains why there is no status.
function away(failure, unit) {
  const reasons = [failure.error, ...(failure.hint ?? '').split('\n')].filter(Boolean);
  const result = `systemd reports: ${unit?.Result || 'failed'}`;
  switch (true) {
    case failure.problem === 'not-found' || unit?.LoadState === 'not-found':
      return { level: 'fail', title: 'node-dns is not installed', reasons: ['Install the package node-dns of the same version as this page.'] };
    case disconnections.includes(failure.problem):
      return { level: 'none', title: 'Cockpit has no connection to this node', reasons };
    case failure.problem === 'unexpected-json':
      return { level: 'none', title: 'This page cannot read the status', reasons };
    case failure.problem === 'access-denied' || failure.exitCode === 4:
      return { level: 'none', title: 'This user may not query node-dns', reasons };
    case !unit:
      return { level: 'none', title: 'node-dns does not answer', reasons };
    case failure.exitCode !== 3:
      return { level: 'fail', title: 'node-dns does not answer', reasons };
    case unit.LoadState === 'masked':
      return { level: 'fail', title: 'node-dns is masked', reasons: ['systemd does not start it. Run: systemctl unmask node-dns'] };
    case unit.SubState?.startsWith('auto-restart'):
      return { level: 'fail', title: 'node-dns fails again and again', reasons: [`${result}. systemd starts it again.`, ...reasons] };
    case unit.ActiveState === 'activating' || unit.ActiveState === 'reloading':
      return { level: 'none', title: 'node-dns is starting', reasons: [] };
    case unit.ActiveState === 'failed':
      return { level: 'fail', title: 'node-dns has failed', reasons: [result, ...reasons] };
    case unit.ActiveState === 'active':
      return { level: 'fail', title: 'node-dns runs but does not answer', reasons };
    case !unit.ActiveState: // systemctl failed
      return { level: 'fail', title: 'node-dns is not running', reasons };
  }
  const isOff = unit.UnitFileState === 'disabled';
  return { level: 'fail', title: 'node-dns is stopped', reasons: isOff ? ['It does not start at boot: the unit is disabled.'] : [] };
}

// unitArguments are those of systemctl(1) before the unit's name.
export const unitArguments = ['show', '--property=LoadState,ActiveState,SubState,Result,UnitFileState'];

// unitOf parses the output of systemctl for unitArguments.
export function unitOf(output) {
  return Object.fromEntries(output.trim().split('\n').map((line) => line.split(/=(.*)/s).slice(0, 2)));
}

// actionOf returns the systemctl command that may help: start or restart; undefined if neither can.
export function actionOf({ status, failure, unit }) {
  if (!failure) {
    return status && 'restart';
  }
  if (failure.problem || failure.exitCode === 4 || !unit || unit.LoadState === 'masked' || unit.LoadState === 'not-found') {
    return undefined;
  }
  if (unit.SubState?.startsWith('auto-restart')) { // a start does not wait for RestartSec
    return 'start';
  }
  return { active: 'restart', inactive: 'start', failed: 'start' }[unit.ActiveState];
}

// reasonsOf returns the reasons of `node-dns status --brief`, and the share of failed answers.
export function reasonsOf(status) {
  const reasons = [];
  const repeated = new Set(); // entries of status.problems about servers that are in reasons
  for (const route of status.routes ?? []) {
    for (const server of route.servers ?? []) {
      if (server.state === 'down') {
        const what = route.domain === '.' ? `Upstream nameserver ${server.address}` : `${server.address}, for ${route.domain},`;
        reasons.push(`${what} is down: ${server.error || 'no response'}`);
        repeated.add(`${server.address} (for ${route.domain}) is down: ${server.error ?? ''}`);
      }
    }
  }
  reasons.push(...(status.problems ?? []).filter((problem) => !repeated.has(problem)));
  const minute = status.lastMinute;
  if (minute && minute.responses >= someAnswers && minute.servfail / minute.responses >= manyFailed) {
    reasons.push(`${minute.servfail} of ${minute.responses} answers in the last minute were SERVFAIL.`);
  }
  return reasons;
}

export function stateCard(known) {
  const { level, title, reasons } = verdict(known);
  return [
    h('div', { class: `nd-state-icon nd-${level}` }, icon(level)),
    h('div', { class: 'nd-state-words' },
      live(h('h2', { class: 'pf-v5-c-title pf-m-xl' }, title)),
      reasons.length > 0 && list('nd-reasons', reasons, (reason) => reason, mostReasons),
      level === 'ok' && h('p', null, quiet(summary(known.status))),
      known.failure && known.status && h('p', null, quiet(`Grey parts of the page are as of ${time(known.status.now)}.`))),
  ];
}

// summary returns one sentence about a healthy node.
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

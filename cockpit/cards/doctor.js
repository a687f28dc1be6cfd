// Findings of `node-dns doctor`, with their fixes.

import { h } from '../lib/dom.js';
import { plural, time } from '../lib/words.js';
import { failure, folded, icon, label, list, live, quiet } from './parts.js';

// sorted groups the findings by level. Inside a level it keeps doctor's order: causes come first.
export function sorted(report) {
  const of = (level) => (report.findings ?? []).filter((finding) => finding.level === level);
  return { failures: of('fail'), warnings: of('warn'), fine: of('ok') };
}

export function headline(report) {
  const { failures, warnings, fine } = sorted(report);
  if (failures.length + warnings.length === 0) {
    return { level: 'ok', words: 'No problems' };
  }
  const words = [failures.length > 0 && plural(failures.length, 'problem'), warnings.length > 0 && plural(warnings.length, 'warning')];
  return { level: failures.length > 0 ? 'fail' : 'warn', words: words.filter(Boolean).join(', ') };
}

// Maximum number of warnings outside the fold. Names resolve despite warnings, so problems are
// never folded.
const openWarnings = 2;

// doctorCard takes the last report, whether doctor is running, and the time of the report.
export function doctorCard({ report, isRunning, at }) {
  if (report?.kind === 'Error') {
    return live(failure(report));
  }
  if (!report) {
    return live(quiet(isRunning ? 'Checking: asking names, nameservers and systemd …' : 'Not checked yet.'));
  }
  const { failures, warnings, fine } = sorted(report);
  const { level, words } = headline(report);
  const more = warnings.length - openWarnings;
  return [
    live(label(level, words), ' ', quiet(isRunning ? 'checking again …' : `checked at ${time(at)}`)),
    listOf([...failures, ...warnings.slice(0, openWarnings)]),
    more > 0 && folded('warnings', plural(more, 'more warning'), listOf(warnings.slice(openWarnings))),
    fine.length > 0 && folded('passed', plural(fine.length, 'passed check'), listOf(fine)),
  ];
}

function listOf(findings) {
  return h('ul', { class: 'nd-findings' }, findings.map(finding));
}

function finding({ level, what, details, fix }) {
  const word = { fail: 'Problem: ', warn: 'Warning: ' }[level];
  return h('li', { class: 'nd-finding' },
    icon(level),
    h('div', { class: 'nd-finding-words' },
      h('div', null, word && h('span', { class: 'nd-unseen' }, word), what),
      (details ?? []).length > 0 && list('nd-details', details, (line) => line),
      fix && h('div', { class: 'nd-fix' }, h('strong', null, 'Fix: '), fix)));
}

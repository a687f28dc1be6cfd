// What `node-dns doctor` finds, and how to fix it.

import { h } from '../lib/dom.js';
import { plural, time } from '../lib/words.js';
import { failure, folded, icon, label, quiet } from './parts.js';

// sorted has the findings by level, each level in doctor's order: causes come first.
export function sorted(report) {
  const of = (level) => (report.findings ?? []).filter((finding) => finding.level === level);
  return { failures: of('fail'), warnings: of('warn'), fine: of('ok') };
}

export function headline(report) {
  const { failures, warnings, fine } = sorted(report);
  if (failures.length + warnings.length === 0) {
    return { level: 'ok', words: `No problems: ${plural(fine.length, 'check')} passed` };
  }
  const words = [failures.length > 0 && plural(failures.length, 'problem'), warnings.length > 0 && plural(warnings.length, 'warning')];
  return { level: failures.length > 0 ? 'fail' : 'warn', words: words.filter(Boolean).join(', ') };
}

// doctorCard takes the last report, whether another is on its way, and when the last one came.
export function doctorCard({ report, isRunning, at }) {
  if (report?.kind === 'Error') {
    return failure(report);
  }
  if (!report) {
    return h('p', null, quiet(isRunning ? 'Checking: asking names, nameservers and systemd …' : 'Not checked yet.'));
  }
  const { failures, warnings, fine } = sorted(report);
  const { level, words } = headline(report);
  return [
    h('p', { class: 'nd-gap' }, label(level, words), ' ', quiet(isRunning ? 'checking again …' : `checked at ${time(at)}`)),
    h('ul', { class: 'nd-findings' }, [...failures, ...warnings].map(finding)),
    fine.length > 0 && folded('passed', 'Show the checks that passed',
      h('ul', { class: 'nd-findings' }, fine.map(finding))),
  ];
}

function finding({ level, what, details, fix }) {
  const word = { fail: 'Problem: ', warn: 'Warning: ' }[level];
  return h('li', { class: 'nd-finding' },
    icon(level),
    h('div', { class: 'nd-finding-words' },
      h('div', null, word && h('span', { class: 'nd-unseen' }, word), what),
      (details ?? []).length > 0 && h('ul', { class: 'nd-details' }, details.map((line) => h('li', null, line))),
      fix && h('div', { class: 'nd-fix' }, h('strong', null, 'Fix: '), fix)));
}

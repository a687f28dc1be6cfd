// A name is looked up, and the answer explained: which names of the search list were tried, which route they took, who answered.

import { h } from '../lib/dom.js';
import { duration, milliseconds } from '../lib/words.js';
import { failure, folded, label, lines, notice, quiet, table } from './parts.js';

// lookupArguments are those of `node-dns`. Behind -- nothing is a flag.
export function lookupArguments({ name, type, namespace }) {
  const options = ['query', '--output=json', '--trace'];
  if (type) {
    options.push(`--type=${type}`);
  }
  if (namespace) {
    options.push(`--namespace=${namespace}`);
  }
  return [...options, '--', name];
}

// resultOf is what a C library sees in an answer.
export function resultOf(answer) {
  switch (answer.rcode) {
    case 'NXDOMAIN':
      return 'absent';
    case 'NOERROR':
      return answer.answer?.length > 0 ? 'found' : 'nodata';
    case 'SERVFAIL':
    case '':
      return 'failed';
  }
  return 'refused';
}

const order = ['found', 'nodata', 'failed', 'refused'];

// lastStep is the step that the search ends with: that with an answer; else one whose name exists, or that failed; else the last.
export function lastStep(lookup) {
  const steps = lookup.steps ?? [];
  for (const result of order) {
    const step = steps.find(({ answers }) => answers.some((answer) => resultOf(answer) === result));
    if (step) {
      return step;
    }
  }
  return steps.at(-1);
}

// bestAnswer says most of a step.
function bestAnswer({ answers }) {
  for (const result of ['found', 'failed', 'refused', 'nodata']) {
    const answer = answers.find((a) => resultOf(a) === result);
    if (answer) {
      return answer;
    }
  }
  return answers[0];
}

function recordsOf({ answers }) {
  const seen = new Set();
  return answers.flatMap((answer) => answer.answer ?? []).filter((record) => {
    const key = [record.name, record.type, record.data].join('\n');
    return !seen.has(key) && seen.add(key);
  });
}

const words = {
  found: ['ok', 'found'],
  nodata: ['warn', 'exists, without such records (NODATA)'],
  absent: ['none', 'does not exist (NXDOMAIN)'],
  failed: ['fail', 'no answer'],
  refused: ['fail', 'refused'],
};

function outcome(answer) {
  const [level, text] = words[resultOf(answer)];
  if (resultOf(answer) === 'failed') {
    return [level, answer.failure ? `no answer: ${answer.failure}` : `failed (${answer.rcode || 'no answer'})`];
  }
  return [level, resultOf(answer) === 'refused' ? `refused (${answer.rcode})` : text];
}

// outcomeWord is the response code, or NODATA (RFC 9499 section 5).
function outcomeWord(answer) {
  return resultOf(answer) === 'nodata' ? 'NODATA' : answer.rcode || 'no answer';
}

// answeredBy says in words who answered, and why it was asked.
export function answeredBy(by) {
  const over = by.transport ? ` over ${by.transport}` : '';
  const route = by.domain && by.domain !== '.' ? `route ${by.domain}` : 'upstream nameserver';
  switch (by.who) {
    case 'cluster':
      if (by.server) {
        return [`the cluster’s nameserver ${by.server}${over}`, by.source && `set by ${by.source}`];
      }
      return ['built-in cluster resolver', by.target && `the alias’s target from ${by.target}`];
    case 'upstream':
      return [`${by.server}${over}`, `${route}, set by ${by.source}`];
    case 'local data':
      return ['local data', by.source];
    case 'server':
      return [`${by.server}${over}`, 'asked directly'];
    case 'localhost':
      return ['node-dns (localhost)'];
    case 'itself':
      return ['node-dns itself'];
    case 'rule':
      return by.source ? [`node-dns: ${by.domain} is not forwarded`, by.source] : ['node-dns: not forwarded'];
  }
  return ['no server', by.domain && `${route}${by.source ? `, set by ${by.source}` : ''}`];
}

function fromWhere(answer) {
  const { by } = answer;
  if (by.cached) {
    return `${by.stale ? 'stale, ' : ''}from the cache, ${duration((by.ageNanoseconds ?? 0) / 1e9)} old`;
  }
  return by.server || by.target ? 'not cached' : '';
}

function extended(error) {
  return `EDE ${error.code}${error.name ? ` (${error.name})` : ''}${error.text ? `: ${error.text}` : ''}`;
}

// lookupCard takes the lookup, or an Error, or nothing while there is none.
export function lookupCard({ lookup, isRunning }) {
  if (isRunning) {
    return h('p', null, quiet('Looking it up …'));
  }
  if (!lookup) {
    return null;
  }
  if (lookup.kind === 'Error') {
    return failure(lookup);
  }
  const last = lastStep(lookup);
  if (!last?.answers.length) {
    return notice('fail', 'No query sent: the name is too long with every domain of the search list.');
  }
  const best = bestAnswer(last);
  const records = recordsOf(last);
  const [level, said] = outcome(best);
  const [who, why] = answeredBy(best.by);
  return [
    notice(level === 'none' ? 'warn' : level, `${last.name} ${said}`,
      h('p', null, `${[`From ${who}${why ? ` (${why})` : ''}, in ${milliseconds(best.tookNanoseconds)}`, fromWhere(best)].filter(Boolean).join(', ')}.`),
      (best.extendedErrors ?? []).map((error) => h('p', null, extended(error)))),
    records.length > 0 && table('Records', ['Record', 'TTL', 'Type', 'Data'], records.map((r) => [r.name, r.ttl, r.type, h('strong', null, r.data)])),
    (lookup.steps.length > 1 || level !== 'ok') && folded('tried', `${lookup.steps.length} names tried`, tried(lookup)),
    traceOf(lookup),
  ];
}

function tried({ steps }) {
  return table('Names tried', ['Name', 'Result', 'Answered by', 'Time'], steps.map((step) => {
    const answer = bestAnswer(step);
    const [who, why] = answeredBy(answer.by);
    const [level] = words[resultOf(answer)];
    return [
      h('strong', null, step.name), lines(label(level, outcomeWord(answer)), answer.failure && quiet(answer.failure)),
      lines(who, why && quiet(why), quiet(fromWhere(answer))), milliseconds(answer.tookNanoseconds),
    ];
  }));
}

function traceOf({ steps }) {
  const traced = steps.flatMap((step) => step.answers).filter((answer) => answer.trace?.length > 0);
  return traced.length > 0 && folded('trace', 'Where the time went', traced.map((answer) => h('div', { class: 'nd-trace' },
    h('strong', null, `${answer.name} ${answer.type}`), ` in ${milliseconds(answer.tookNanoseconds)}`,
    h('ol', null, answer.trace.map((step) => h('li', null, quiet(milliseconds(step.atNanoseconds)), ' ', step.what))))));
}

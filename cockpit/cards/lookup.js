// The result of a lookup: the answer, the names of the search list that were tried, their routes,
// and their servers.

import { h } from '../lib/dom.js';
import { duration, milliseconds, plural } from '../lib/words.js';
import { failure, folded, label, lines, live, notice, quiet, table } from './parts.js';

// lookupArguments returns the arguments of node-dns. After --, a name that begins with "-" is not a
// flag.
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

// resultOf returns the answer as a C library interprets it.
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

// lastStep returns the step that the search ends with: the one with an answer, else one whose name
// exists or whose query failed, else the last one.
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

// bestAnswer returns the most informative answer of a step.
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

// outcomeWord returns the response code, or NODATA (RFC 9499 section 5).
function outcomeWord(answer) {
  return resultOf(answer) === 'nodata' ? 'NODATA' : answer.rcode || 'no answer';
}

// answeredBy returns the name of the server or component that answered, and the reason why it was
// asked.
export function answeredBy(by) {
  const over = by.transport ? ` over ${by.transport}` : '';
  const setBy = by.source ? `, set by ${by.source}` : '';
  const route = by.domain && by.domain !== '.' ? `route ${by.domain}` : 'upstream nameserver';
  switch (by.who) {
    case 'cluster':
      if (by.server) {
        return [`the cluster’s nameserver ${by.server}${over}`, by.source && `set by ${by.source}`];
      }
      return ['built-in cluster resolver', by.target && `the alias’s target from ${by.target}`];
    case 'upstream':
      return [`${by.server ?? 'an upstream nameserver'}${over}`, `${route}${setBy}`];
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
  return ['no server', by.domain && `${route}${setBy}`];
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

// lookupCard takes a Lookup, an Error, or undefined before the first lookup.
export function lookupCard({ lookup, isRunning }) {
  if (isRunning) {
    return live(quiet('Looking it up …'));
  }
  if (!lookup) {
    return live();
  }
  if (lookup.kind === 'Error') {
    return live(failure(lookup));
  }
  const last = lastStep(lookup);
  if (!last?.answers.length) {
    return live(notice('fail', 'No query sent: the name is too long with every domain of the search list.'));
  }
  const best = bestAnswer(last);
  const records = recordsOf(last);
  const [level] = outcome(best);
  return [
    live(answerOf(last, best)),
    records.length > 0 && table('Records', ['Record', 'TTL', 'Type', 'Data'], records, (r) => [r.name, r.ttl, r.type, h('strong', null, r.data)]),
    (lookup.steps.length > 1 || level !== 'ok') && folded('tried', `${plural(lookup.steps.length, 'name')} tried`, tried(lookup)),
    traceOf(lookup),
  ];
}

// answerOf explains the best answer of a step. Answers for other types matter if they failed.
function answerOf(step, best) {
  const [level, result] = outcome(best);
  const [who, why] = answeredBy(best.by);
  const from = `From ${who}${why ? ` (${why})` : ''}, in ${milliseconds(best.tookNanoseconds)}`;
  const failures = level === 'ok' ? step.answers.filter((answer) => outcome(answer)[0] === 'fail') : [];
  return notice(level === 'none' || failures.length > 0 ? 'warn' : level, `${step.name} ${result}`,
    h('p', null, `${[from, fromWhere(best)].filter(Boolean).join(', ')}.`), errorsOf(best),
    failures.map((answer) => [h('p', null, `${answer.type}: ${outcome(answer)[1]}`), errorsOf(answer)]));
}

function errorsOf(answer) {
  return (answer.extendedErrors ?? []).map((error) => h('p', null, extended(error)));
}

function tried({ steps }) {
  return table('Names tried', ['Name', 'Result', 'Answered by', 'Time'], steps, (step) => {
    const answer = bestAnswer(step);
    const [who, why] = answeredBy(answer.by);
    const [level] = words[resultOf(answer)];
    return [
      h('strong', null, step.name), lines(label(level, outcomeWord(answer)), answer.failure && quiet(answer.failure)),
      lines(who, why && quiet(why), quiet(fromWhere(answer))), milliseconds(answer.tookNanoseconds),
    ];
  });
}

function traceOf({ steps }) {
  const traced = steps.flatMap((step) => step.answers).filter((answer) => answer.trace?.length > 0);
  return traced.length > 0 && folded('trace', 'Where the time went', traced.map((answer) => h('div', { class: 'nd-trace' },
    h('strong', null, `${answer.name} ${answer.type}`), ` in ${milliseconds(answer.tookNanoseconds)}`,
    h('ol', null, answer.trace.map((step) => h('li', null, quiet(milliseconds(step.atNanoseconds)), ' ', step.what))))));
}

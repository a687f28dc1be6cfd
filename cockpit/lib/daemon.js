// The programs that the page runs through cockpit-bridge. The page has no other connection to the
// node.

import { expect, newReader, parse } from './documents.js';

const cockpit = window.cockpit;
const environ = ['LC_ALL=C.UTF-8', 'NO_COLOR=1'];

// Milliseconds until keep restarts a program that ended. They double with each run that printed
// nothing.
const shortestRest = 5000;
const longestRest = 60000;

// run runs node-dns and returns the JSON document of this kind that it prints. On failure it
// returns a value of kind Error with error, hint, exitCode, and problem, which is Cockpit's code
// for a program that did not run.
export async function run(argv, superuser, kind) {
  let output = '';
  try {
    await cockpit.spawn(argv, { superuser, environ, err: 'message' }).stream((piece) => { output += piece; });
  } catch (failure) {
    const printed = parse(output);
    return printed === undefined ? errorOf(failure) : expect(printed, kind); // doctor and query print a document and exit with 1
  }
  return expect(parse(output), kind);
}

// runText runs a program and returns its output. On failure it throws a value of kind Error.
export async function runText(argv, superuser) {
  try {
    return await cockpit.spawn(argv, { superuser, environ, err: 'message' });
  } catch (failure) {
    throw errorOf(failure);
  }
}

// follow runs a program that prints JSON documents until it is stopped, and returns a function that
// stops it. onEnd gets a value of kind Error, or null after exit code 0. After a stop, neither
// function is called.
export function follow(argv, superuser, onDocument, onEnd) {
  let isStopped = false;
  let last;
  const program = cockpit.spawn(argv, { superuser, environ, err: 'message' });
  const read = newReader((value) => {
    if (!isStopped) {
      last = value;
      onDocument(value);
    }
  });
  program.stream(read).then(
    () => isStopped || onEnd(null),
    // A program of ours prints why it fails as its last document, with a hint.
    (failure) => isStopped || onEnd(last?.kind === 'Error' && !failure.problem ? last : errorOf(failure)),
  );
  return () => {
    isStopped = true;
    program.close('terminated');
  };
}

// keep is follow for a program that is restarted when it ends. onDocument also gets whether the
// document is the first one of a run.
export function keep(argv, superuser, onDocument, onEnd, rest = shortestRest) {
  let stop;
  let isFirst = true;
  const onPrinted = (value) => {
    const wasFirst = isFirst;
    isFirst = false;
    onDocument(value, wasFirst);
  };
  const restart = (error) => {
    const now = isFirst ? rest : shortestRest;
    const next = Math.min(2 * now, longestRest);
    const timer = setTimeout(() => { stop = keep(argv, superuser, onDocument, onEnd, next); }, now);
    stop = () => clearTimeout(timer);
    onEnd(error);
  };
  stop = follow(argv, superuser, onPrinted, restart);
  return () => stop();
}

function errorOf(failure) {
  return {
    kind: 'Error',
    error: String(failure?.message ?? failure),
    exitCode: failure?.exit_status ?? undefined,
    problem: failure?.problem ?? undefined,
  };
}

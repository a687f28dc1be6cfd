// The programs that the page runs, through cockpit-bridge. Nothing else of the page talks to the node.

import { newReader, parse } from './documents.js';

const cockpit = window.cockpit;
const environ = ['LC_ALL=C.UTF-8', 'NO_COLOR=1'];

// run runs a program and returns the JSON that it prints. If there is none, it returns a value of kind Error, as the programs do:
// with error, hint, exitCode, and Cockpit's own word for the problem.
export async function run(argv, superuser) {
  let output = '';
  try {
    await cockpit.spawn(argv, { superuser, environ, err: 'message' }).stream((piece) => { output += piece; });
    return parse(output) ?? { kind: 'Error', error: `${argv[0]}: the output is no JSON` };
  } catch (failure) {
    return parse(output) ?? errorOf(failure);
  }
}

// runText runs a program for its text, or for what it does. It throws a value of kind Error.
export async function runText(argv, superuser) {
  try {
    return await cockpit.spawn(argv, { superuser, environ, err: 'message' });
  } catch (failure) {
    throw errorOf(failure);
  }
}

// follow runs a program that prints JSON documents until it is stopped. onEnd is called with a value of kind Error, or with null after
// exit code 0. It is not called after the returned function, which stops the program.
export function follow(argv, superuser, onDocument, onEnd) {
  let isStopped = false;
  const program = cockpit.spawn(argv, { superuser, environ, err: 'message' });
  const read = newReader((value) => {
    if (!isStopped) {
      onDocument(value);
    }
  });
  program.stream(read).then(
    () => isStopped || onEnd(null),
    (failure) => isStopped || onEnd(errorOf(failure)),
  );
  return () => {
    isStopped = true;
    program.close('terminated');
  };
}

function errorOf(failure) {
  return {
    kind: 'Error',
    error: String(failure?.message ?? failure),
    exitCode: failure?.exit_status ?? undefined,
    problem: failure?.problem ?? undefined,
  };
}

// The page: what is known of the node, where it comes from, and what the buttons do. The cards decide how it looks.

import { render } from './lib/dom.js';
import { follow, run, runText } from './lib/daemon.js';
import { followTheme } from './lib/theme.js';
import { plural } from './lib/words.js';
import { doctorCard } from './cards/doctor.js';
import { eventsCard, journalArguments, mostEvents } from './cards/events.js';
import { lookupArguments, lookupCard } from './cards/lookup.js';
import { clusterCard, nodeCard } from './cards/node.js';
import { failure, notice, quiet } from './cards/parts.js';
import { monitorArguments, mostQueries, queriesCard } from './cards/queries.js';
import { serversCard } from './cards/servers.js';
import { isRunning, stateCard, verdict } from './cards/state.js';
import { slowCard, trafficCard } from './cards/traffic.js';

const cockpit = window.cockpit;
const program = '/usr/sbin/node-dns';
const unit = 'node-dns.service';
const everySeconds = 3; // the daemon is asked for its status, while the page is visible
const restAfterFailure = 5000; // milliseconds until a program that ended is started again
const saidFor = 15000; // milliseconds that the page shows what came of a button

const $ = (id) => document.getElementById(id);

// known is all that the page shows.
const known = {
  status: undefined, // the last Status; with failure, the last one before it
  failure: undefined, // an Error, while there is no status
  unit: undefined, // systemd's properties of the unit, while there is a failure
  level: undefined, // of the status, whatever doctor finds
  doctor: { report: undefined, isRunning: false, isOld: false, isWanted: false, at: undefined },
  lookup: { lookup: undefined, isRunning: false },
  queries: { events: [], isRunning: false, error: undefined },
  events: { entries: [], history: undefined, error: undefined },
  said: undefined, // a tree: what came of the last button
};

const permission = cockpit.permission({ admin: true });
const isAdmin = () => permission.allowed !== false;
// mayChange: the daemon gives members of the group node-dns-admin the rights of root, and hides nothing from them.
const mayChange = () => isAdmin() || (isRunning(known) && !(known.status.hidden?.length > 0));
const stops = new Map(); // by name, the functions that stop the programs that run

let isDrawing = false;

// draw shows what is known, once for all that came since the last frame.
function draw() {
  if (!isDrawing) {
    isDrawing = true;
    requestAnimationFrame(() => {
      isDrawing = false;
      drawNow();
    });
  }
}

function drawNow() {
  const { status } = known;
  const about = { ...known, report: known.doctor.isOld ? undefined : known.doctor.report };
  render($('state'), stateCard(about));
  $('state').dataset.level = verdict(about).level;
  $('restart').hidden = !isRunning(known);
  $('start').hidden = known.failure?.exitCode !== 3 || known.unit?.ActiveState === 'activating';
  $('access').hidden = mayChange();
  for (const button of [$('start'), $('restart')]) {
    button.disabled = !isAdmin();
  }
  for (const button of document.querySelectorAll('[data-needs=admin]')) {
    button.disabled = !mayChange() || !isRunning(known);
  }
  render($('said'), known.said);
  render($('doctor'), doctorCard(known.doctor));
  $('check').disabled = known.doctor.isRunning;
  render($('lookup'), lookupCard(known.lookup));
  drawStatus(status);
  render($('queries'), queriesCard(known.queries));
  $('queries-watch').textContent = known.queries.isRunning ? 'Stop' : `Watch the next ${mostQueries}`;
  render($('events'), eventsCard(known.events));
}

// drawStatus shows the cards that are parts of the status. The last one stays while the daemon is away, in grey.
function drawStatus(status) {
  const isOld = Boolean(known.failure);
  for (const [id, card] of [['servers', serversCard], ['cluster', clusterCard], ['traffic', trafficCard], ['node', nodeCard]]) {
    render($(id), status ? card(status) : quiet(known.failure ? 'Unknown: node-dns reports no status.' : 'Loading …'));
    $(id).classList.toggle('nd-old', isOld);
  }
  const slow = status && slowCard(status);
  render($('slow'), slow);
  $('slow-section').hidden = !slow;
  const isLogged = Boolean(status?.watched?.logQueries);
  $('log-queries').textContent = `Turn query log ${isLogged ? 'off' : 'on'}`;
  $('log-queries').setAttribute('aria-pressed', String(isLogged));
}

// keep follows a program under a name for as long as the page is visible.
function keep(name, argv, onDocument, onEnd) {
  stop(name);
  const again = () => {
    const timer = setTimeout(() => keep(name, argv, onDocument, onEnd), restAfterFailure);
    stops.set(name, () => clearTimeout(timer));
  };
  stops.set(name, follow(argv, 'try', onDocument, (error) => {
    again();
    onEnd(error);
    draw();
  }));
}

function stop(name) {
  stops.get(name)?.();
  stops.delete(name);
}

function onStatus(value) {
  if (value.kind === 'Status') {
    const changed = known.status?.routesChanged?.time !== value.routesChanged?.time || !known.status;
    Object.assign(known, { status: value, failure: undefined, unit: undefined });
    if (changed) {
      loadHistory();
    }
  } else {
    known.failure = value;
    loadUnit();
  }
  const { level } = verdict(known);
  if (level !== known.level) { // what doctor found before may be fixed, or have other causes
    known.level = level;
    known.doctor.isOld = true;
    check();
  }
  draw();
}

async function loadUnit() {
  try {
    const text = await runText(['systemctl', 'show', '--property=ActiveState,SubState,Result,UnitFileState', unit]);
    known.unit = Object.fromEntries(text.trim().split('\n').map((line) => line.split(/=(.*)/s).slice(0, 2)));
  } catch {
    known.unit = {};
  }
  draw();
}

async function loadHistory() {
  const history = await run([program, 'servers', '--history', '--output=json'], 'try');
  known.events.history = history.kind === 'Error' ? known.events.history : history;
  draw();
}

// check runs doctor. While it runs, another call makes it run once more: what it has looked at may have changed.
async function check() {
  const isRunning = known.doctor.isRunning;
  Object.assign(known.doctor, { isRunning: true, isWanted: isRunning });
  draw();
  if (isRunning) {
    return;
  }
  const report = await run([program, 'doctor', '--output=json'], 'try');
  const { isWanted, isOld } = known.doctor;
  known.doctor = { report, isRunning: false, isOld: isWanted && isOld, isWanted: false, at: Date.now() };
  draw();
  if (isWanted) {
    check();
  }
}

// watch follows what changes by itself, while the page can be seen.
function watch() {
  if (cockpit.hidden) {
    for (const name of [...stops.keys()]) {
      stop(name);
    }
    known.queries.isRunning = false;
    return;
  }
  keep('status', [program, 'status', `--watch=${everySeconds}`, '--output=json'], onStatus, (error) => {
    onStatus(error ?? { kind: 'Error', error: 'node-dns status has ended' });
  });
  known.events.entries = [];
  keep('journal', journalArguments(), (entry) => {
    known.events.error = undefined;
    known.events.entries = [entry, ...known.events.entries].slice(0, mostEvents);
    draw();
  }, (error) => {
    known.events.error = error ?? undefined;
  });
}

// say shows for a while what came of a button.
function say(tree) {
  known.said = tree;
  draw();
  setTimeout(() => {
    if (known.said === tree) { // else another button was pressed since
      known.said = undefined;
      draw();
    }
  }, saidFor);
}

async function manage(verb, done) {
  say(quiet(`systemctl ${verb} ${unit} …`));
  try {
    await runText(['systemctl', verb, unit], 'require');
    say(notice('ok', done));
  } catch (error) {
    say(failure(error));
  }
  watch();
  check();
}

function lookUp(event) {
  event.preventDefault();
  const question = { name: $('lookup-name').value.trim(), type: $('lookup-type').value, namespace: $('lookup-namespace').value.trim() };
  known.lookup = { lookup: undefined, isRunning: true };
  draw();
  // As the user who is logged in: every user of the node may look names up.
  const asked = known.lookup;
  run([program, ...lookupArguments(question)]).then((lookup) => {
    if (known.lookup === asked) { // else another name was asked for since
      known.lookup = { lookup, isRunning: false };
      draw();
    }
  });
}

async function flush(event) {
  event.preventDefault();
  const part = $('flush-part').value;
  const name = $('flush-name').value.trim();
  const options = { name: ['--', name], zone: [`--zone=${name}`], negative: ['--negative'], all: ['--all'] }[part];
  const result = await run([program, 'cache', 'flush', '--output=json', ...options], 'try');
  say(result.kind === 'Error' ? failure(result) : notice('ok', `${plural(result.entries, 'answer')} removed from the cache`));
}

async function logQueries() {
  const word = known.status?.watched?.logQueries ? 'off' : 'on';
  const result = await run([program, 'log-queries', word, '--output=json'], 'try');
  if (result.kind === 'Error') {
    say(failure(result));
    return;
  }
  if (known.status?.watched) {
    known.status.watched.logQueries = result.on;
  }
  const where = `journalctl -t node-dns -f shows it, at most ${result.rate} queries a second.`;
  say(result.on ? notice('ok', 'Query log is on until node-dns is restarted', where, result.silent && ' logLevel hides it: it must be info or debug.')
    : notice('ok', 'Query log is off'));
}

function watchQueries(event) {
  event.preventDefault();
  stop('queries');
  if (known.queries.isRunning) {
    known.queries.isRunning = false;
    draw();
    return;
  }
  known.queries = { events: [], isRunning: true, error: undefined };
  const options = { name: $('queries-name').value.trim(), rcode: $('queries-rcode').value };
  stops.set('queries', follow([program, ...monitorArguments(options)], 'try', (value) => {
    known.queries.events = [value, ...known.queries.events].slice(0, 2 * mostQueries);
    draw();
  }, (error) => {
    known.queries.isRunning = false;
    known.queries.error = error ?? undefined;
    draw();
  }));
  draw();
}

function begin() {
  followTheme();
  $('check').addEventListener('click', check);
  $('start').addEventListener('click', () => manage('start', 'node-dns has started'));
  $('restart').addEventListener('click', () => $('ask-restart').showModal());
  $('ask-restart').addEventListener('close', () => {
    if ($('ask-restart').returnValue === 'restart') {
      manage('restart', 'node-dns has restarted');
    }
    $('ask-restart').returnValue = '';
  });
  $('lookup-form').addEventListener('submit', lookUp);
  $('flush-form').addEventListener('submit', flush);
  $('flush-part').addEventListener('change', () => {
    const isNamed = ['name', 'zone'].includes($('flush-part').value);
    $('flush-field').hidden = !isNamed;
    $('flush-name').disabled = !isNamed;
  });
  $('log-queries').addEventListener('click', logQueries);
  $('queries-form').addEventListener('submit', watchQueries);
  cockpit.addEventListener('visibilitychange', watch);
  permission.addEventListener('changed', () => { // programs of an administrator see more
    watch();
    check();
  });
  drawNow();
  watch();
}

cockpit.transport.wait(begin);

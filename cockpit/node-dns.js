// The page: it collects the node's data, and handles the buttons. The cards decide how the data
// looks.

import { render } from './lib/dom.js';
import { follow, keep, run, runText } from './lib/daemon.js';
import { expect } from './lib/documents.js';
import { spaced } from './lib/spaced.js';
import { followTheme } from './lib/theme.js';
import { plural } from './lib/words.js';
import { doctorCard } from './cards/doctor.js';
import { eventsCard, journalArguments, mostEvents } from './cards/events.js';
import { lookupArguments, lookupCard } from './cards/lookup.js';
import { clusterCard, nodeCard } from './cards/node.js';
import { failure, guarded, notice, quiet } from './cards/parts.js';
import { monitorArguments, mostQueries, queriesCard, withEvent } from './cards/queries.js';
import { serversCard } from './cards/servers.js';
import { actionOf, stateCard, unitArguments, unitOf, verdict } from './cards/state.js';
import { flushArguments, slowCard, trafficCard } from './cards/traffic.js';

const cockpit = window.cockpit;
const program = '/usr/sbin/node-dns';
const unit = 'node-dns.service';
const statusInterval = 3; // seconds between updates of the status while the page is visible
const checkInterval = 15000; // minimum milliseconds between checks after changes of the level, because an upstream may flap
const messageTime = 15000; // milliseconds that the page shows the result of a button

const $ = (id) => document.getElementById(id);

// known is the data that the page shows.
const known = {
  status: undefined, // last Status; it stays after a failure
  failure: undefined, // an Error if the daemon gave no status
  unit: undefined, // systemd's properties of the unit; set after a failure
  level: undefined, // level of the last verdict, without doctor's findings
  doctor: { report: undefined, isRunning: false, isOld: false, isWanted: false, at: undefined },
  lookup: { lookup: undefined, isRunning: false },
  queries: { queries: [], lost: 0, isRunning: false, error: undefined },
  events: { entries: [], history: undefined, error: undefined },
  message: undefined, // tree with the result of the last button
};

const permission = cockpit.permission({ admin: true });
const isRunning = () => Boolean(known.status) && !known.failure;
const isAdmin = () => permission.allowed !== false;
// mayChange reports whether the daemon accepts changes. It gives members of the group
// node-dns-admin the rights of root, and hides nothing from them.
const mayChange = () => isAdmin() || (isRunning() && !(known.status.hidden?.length > 0));
const stops = new Map(); // functions that stop the running programs, by name

let isDrawing = false;

// draw updates the page with the next frame, once for all changes until then.
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
  const about = { ...known, report: known.doctor.isOld ? undefined : known.doctor.report };
  show('state', stateCard, about);
  $('state').dataset.level = verdict(about).level;
  const action = actionOf(known);
  hide($('restart'), action !== 'restart');
  hide($('start'), action !== 'start');
  $('access').hidden = mayChange();
  for (const button of [$('start'), $('restart')]) {
    button.disabled = !isAdmin();
  }
  for (const button of document.querySelectorAll('[data-needs=admin]')) {
    button.disabled = !mayChange() || !isRunning();
  }
  render($('message'), known.message);
  show('doctor', doctorCard, known.doctor);
  show('lookup', lookupCard, known.lookup);
  drawStatus();
  show('queries', queriesCard, known.queries);
  $('queries-watch').textContent = known.queries.isRunning ? 'Stop' : `Watch the next ${mostQueries}`;
  show('events', eventsCard, known.events);
}

// hide hides or shows a button. If a button with the keyboard focus is hidden, the focus moves to
// the page.
function hide(button, isHidden) {
  if (isHidden && document.activeElement === button) {
    document.querySelector('main').focus({ preventScroll: true });
  }
  button.hidden = isHidden;
}

function show(id, card, value) {
  render($(id), guarded(card, value));
}

// drawStatus updates the cards that show parts of the status. While the daemon is away, they show
// the last status in gray.
function drawStatus() {
  const { status } = known;
  const isOld = Boolean(known.failure);
  for (const [id, card] of [['servers', serversCard], ['cluster', clusterCard], ['traffic', trafficCard], ['node', nodeCard]]) {
    render($(id), status ? guarded(card, status) : quiet(known.failure ? 'Unknown: node-dns reports no status.' : 'Loading …'));
    $(id).classList.toggle('nd-old', isOld);
  }
  const slow = status && guarded(slowCard, status);
  render($('slow'), slow);
  $('slow-section').hidden = !slow;
  const isLogged = Boolean(status?.watched?.logQueries);
  $('log-queries').textContent = `Turn query log ${isLogged ? 'off' : 'on'}`;
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
  onChange();
}

// onChange updates the page. It runs doctor if the level has changed, because its findings may be
// solved or have other causes.
function onChange() {
  const { level } = verdict(known);
  if (level !== known.level) {
    known.level = level;
    known.doctor.isOld = true;
    checkAfterChange();
  }
  draw();
}

async function loadUnit() {
  let properties = {};
  try {
    properties = unitOf(await runText(['systemctl', ...unitArguments, unit]));
  } catch { // without systemd, or without the right to ask it
  }
  if (known.failure) { // otherwise node-dns has answered since
    known.unit = properties;
    onChange();
  }
}

async function loadHistory() {
  const history = await run([program, 'servers', '--history', '--output=json'], 'try', 'ServerHistory');
  known.events.history = history.kind === 'Error' ? known.events.history : history;
  draw();
}

// check runs doctor. A call while doctor runs makes it run once more, because what it looked at may
// have changed.
async function check() {
  const wasRunning = known.doctor.isRunning;
  Object.assign(known.doctor, { isRunning: true, isWanted: wasRunning });
  draw();
  if (wasRunning) {
    return;
  }
  const { level } = known;
  const report = await run([program, 'doctor', '--output=json'], 'try', 'Doctor');
  const { isWanted } = known.doctor;
  known.doctor = { report, isRunning: false, isOld: level !== known.level, isWanted: false, at: Date.now() };
  draw();
  if (isWanted) {
    check();
  }
}

const checkAfterChange = spaced(check, checkInterval);

// watch follows the status and the journal while the page is visible.
function watch() {
  if (cockpit.hidden) {
    for (const name of [...stops.keys()]) {
      stop(name);
    }
    known.queries.isRunning = false;
    return;
  }
  stop('status');
  const argv = [program, 'status', `--watch=${statusInterval}`, '--output=json'];
  stops.set('status', keep(argv, 'try', (value) => onStatus(expect(value, 'Status')), (error) => {
    onStatus(error ?? { kind: 'Error', error: 'node-dns status has ended' });
  }));
  stop('journal');
  stops.set('journal', keep(journalArguments(), 'try', onEntry, (error) => {
    known.events.error = error ?? undefined;
    draw();
  }));
}

// onEntry adds an entry of the journal. Each run of journalctl begins with the last entries again.
function onEntry(entry, isFirst) {
  const older = isFirst ? [] : known.events.entries;
  Object.assign(known.events, { entries: [entry, ...older].slice(0, mostEvents), error: undefined });
  draw();
}

// say shows the result of a button for a while.
function say(tree) {
  known.message = tree;
  draw();
  setTimeout(() => {
    if (known.message === tree) { // otherwise another button was pressed
      known.message = undefined;
      draw();
    }
  }, messageTime);
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
  const asked = known.lookup;
  // Without administrative access: every user of the node may look names up.
  run([program, ...lookupArguments(question)], undefined, 'Lookup').then((lookup) => {
    if (known.lookup === asked) { // otherwise the user looked up another name
      known.lookup = { lookup, isRunning: false };
      draw();
    }
  });
}

async function flush(event) {
  event.preventDefault();
  const argv = flushArguments({ part: $('flush-part').value, name: $('flush-name').value.trim() });
  const result = await run([program, ...argv], 'try', 'CacheFlushed');
  say(result.kind === 'Error' ? failure(result) : notice('ok', `${plural(result.entries, 'answer')} removed from the cache`));
}

async function logQueries() {
  const word = known.status?.watched?.logQueries ? 'off' : 'on';
  const result = await run([program, 'log-queries', word, '--output=json'], 'try', 'LogQueries');
  if (result.kind === 'Error') {
    say(failure(result));
    return;
  }
  if (known.status?.watched) {
    known.status.watched.logQueries = result.on;
  }
  say(result.on ? queryLogIsOn(result) : notice('ok', 'Query log is off'));
}

function queryLogIsOn({ rate, silent }) {
  return notice('ok', 'Query log is on until node-dns is restarted', `journalctl -t node-dns -f shows it, at most ${rate} queries a second.`,
    silent && ' logLevel hides it: it must be info or debug.');
}

function watchQueries(event) {
  event.preventDefault();
  stop('queries');
  if (known.queries.isRunning) {
    known.queries.isRunning = false;
    draw();
    return;
  }
  known.queries = { queries: [], lost: 0, isRunning: true, error: undefined };
  const options = { name: $('queries-name').value.trim(), rcode: $('queries-rcode').value };
  stops.set('queries', follow([program, ...monitorArguments(options)], 'try', (value) => {
    Object.assign(known.queries, withEvent(known.queries, value));
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

// PatternFly's components as trees, for all cards.

import { h } from '../lib/dom.js';
import { number } from '../lib/words.js';

const shapes = {
  ok: 'M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm3.7 5.3-4.6 4.9-3-2.8 1.1-1.2 1.9 1.8 3.5-3.8z',
  warn: 'M8 1.2 15.4 14.6H.6zM7.2 6v4.2h1.6V6zm0 5.2v1.6h1.6v-1.6z',
  fail: 'M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zM7.2 4v5h1.6V4zm0 6.2v1.8h1.6v-1.8z',
  none: 'M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm0 1.6a5.4 5.4 0 1 1 0 10.8A5.4 5.4 0 0 1 8 2.6zM4.6 7.2v1.6h6.8V7.2z',
};

// icon is hidden from screen readers, because the text beside it says the same.
export function icon(level) {
  return h('svg', { class: `nd-icon nd-${level}`, viewBox: '0 0 16 16', width: '16', height: '16', 'aria-hidden': 'true' },
    h('path', { d: shapes[level] ?? shapes.none, fill: 'currentColor', 'fill-rule': 'evenodd' }));
}

const colors = { ok: 'pf-m-green', warn: 'pf-m-orange', fail: 'pf-m-red', none: '' };

export function label(level, words) {
  return h('span', { class: `pf-v5-c-label pf-m-compact ${colors[level] ?? ''}`.trim() },
    h('span', { class: 'pf-v5-c-label__content' },
      h('span', { class: 'pf-v5-c-label__icon' }, icon(level)),
      h('span', { class: 'pf-v5-c-label__text' }, words)));
}

// Maximum number of rows of a table, and of items of a list. A status with 100,000 routes would
// block the browser for seconds.
const mostRows = 200;

// list shows the first `most` items, and the number of the others.
export function list(className, items, show, most = mostRows) {
  const shown = items.slice(0, most).map((item) => h('li', null, show(item)));
  return h('ul', { class: className }, shown, items.length > most && h('li', null, andMore(items.length - most)));
}

function andMore(count) {
  return quiet(`and ${number(count)} more`);
}

// table shows the first items, and the number of the others. cellsOf returns the cells of an item's
// row. On narrow screens, the column's name is beside each cell.
export function table(caption, columns, items, cellsOf) {
  const rows = items.slice(0, mostRows).map(cellsOf);
  return [grid(caption, columns, rows), items.length > mostRows && h('p', null, andMore(items.length - mostRows))];
}

function grid(caption, columns, rows) {
  return h('table', { class: 'pf-v5-c-table pf-m-compact pf-m-grid-md', role: 'table' },
    h('caption', { class: 'nd-unseen' }, caption),
    h('thead', { class: 'pf-v5-c-table__thead', role: 'rowgroup' },
      h('tr', { class: 'pf-v5-c-table__tr', role: 'row' },
        columns.map((name) => h('th', { class: 'pf-v5-c-table__th', role: 'columnheader', scope: 'col' }, name)))),
    h('tbody', { class: 'pf-v5-c-table__tbody', role: 'rowgroup' },
      rows.map((cells) => h('tr', { class: 'pf-v5-c-table__tr', role: 'row' },
        cells.map((cell, i) => h('td', { class: cellClass(cell), role: 'cell', 'data-label': columns[i] }, cell))))));
}

// nothing is the text of a cell without a value.
export const nothing = '–';

function cellClass(cell) {
  return cell === nothing || !hasContent(cell) ? 'pf-v5-c-table__td nd-empty' : 'pf-v5-c-table__td';
}

// facts shows pairs of a name and a value. Pairs without a value are omitted.
export function facts(...pairs) {
  return h('dl', { class: 'pf-v5-c-description-list pf-m-compact pf-m-horizontal-on-sm' },
    pairs.filter((pair) => pair && hasContent(pair[1])).map(([name, words]) => h('div', { class: 'pf-v5-c-description-list__group' },
      h('dt', { class: 'pf-v5-c-description-list__term' }, h('span', { class: 'pf-v5-c-description-list__text' }, name)),
      h('dd', { class: 'pf-v5-c-description-list__description' }, h('div', { class: 'pf-v5-c-description-list__text' }, words)))));
}

function hasContent(words) {
  return Array.isArray(words) ? words.some(hasContent) : words !== '' && words !== null && words !== undefined && words !== false;
}

// lines shows each argument on a line of its own.
export function lines(...all) {
  return all.flat().filter(Boolean).map((line) => h('div', null, line));
}

export function quiet(...words) {
  return h('span', { class: 'nd-quiet' }, words);
}

// notice is an alert inside a card.
export function notice(level, title, ...more) {
  const kind = { ok: 'pf-m-success', warn: 'pf-m-warning', fail: 'pf-m-danger', none: 'pf-m-info' }[level];
  return h('div', { class: `pf-v5-c-alert pf-m-inline ${kind}` },
    h('div', { class: 'pf-v5-c-alert__icon' }, icon(level)),
    h('p', { class: 'pf-v5-c-alert__title' }, title),
    more.length > 0 && h('div', { class: 'pf-v5-c-alert__description' }, more));
}

// live is a region whose changes a screen reader reads aloud. It must be in the document before its
// text, so a card always has one. Values that change with each status do not belong there.
export function live(...content) {
  return h('div', { role: 'status' }, content);
}

// failure explains why a command gave no result.
export function failure(value) {
  return notice('fail', value.error, value.hint && value.hint.split('\n').map((line) => h('p', null, line)));
}

// guarded returns card(value). If the card throws because a field is missing, guarded returns a
// notice, so that the other cards work.
export function guarded(card, value) {
  try {
    return card(value);
  } catch (error) {
    return notice('fail', 'This part cannot be shown', `Install node-dns and cockpit-node-dns of the same version. (${error})`);
  }
}

export function folded(key, title, ...content) {
  return h('details', { 'data-key': key }, h('summary', null, title), content);
}

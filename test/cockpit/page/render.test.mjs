import assert from 'node:assert/strict';
import { test } from 'node:test';
import { h, render } from '../../../cockpit/lib/dom.js';
import { FakeElement } from './fakes.mjs';

const details = (key) => h('details', { 'data-key': key }, h('summary', null, key));

test('render: what stays the same keeps its element', () => {
  const page = new FakeElement('div');
  render(page, h('p', { class: 'a', title: 'x' }, 'one'), [null, details('passed')]);
  const [paragraph, passed] = page.childNodes;
  passed.setAttribute('open', ''); // by the user
  render(page, h('p', { class: 'b' }, 'two'), details('passed'));
  assert.deepEqual(page.childNodes, [paragraph, passed]);
  assert.deepEqual([...paragraph.values], [['class', 'b']]);
  assert.equal(passed.getAttribute('open'), '');
  assert.equal(page.textContent, 'twopassed');
  render(page);
  assert.equal(page.childNodes.length, 0);
});

test('render: an element with a key stays open when others come and go before it', () => {
  const page = new FakeElement('div');
  render(page, details('passed'));
  const [passed] = page.childNodes;
  passed.setAttribute('open', '');
  render(page, h('p', null, 'x'), details('warnings'), details('passed'));
  assert.equal(page.childNodes[2], passed);
  assert.deepEqual(page.childNodes.map((node) => node.getAttribute('open')), [null, null, '']);
  render(page, details('passed'));
  assert.deepEqual(page.childNodes, [passed]);
  render(page, 'x', h('p', null, 'y'), 'z', details('passed'));
  assert.equal(page.childNodes[3], passed);
  render(page, h('p', null, 'y'), details('passed'), details('warnings'));
  assert.equal(page.childNodes[1], passed);
  assert.equal(page.textContent, 'ypassedwarnings');
  render(page, details('warnings'), details('passed'));
  assert.equal(page.textContent, 'warningspassed');
});

test('render: text is a text node, and only SVG elements have its namespace', () => {
  const page = new FakeElement('div');
  render(page, '<b>\u001b</b>', h('svg', null, h('path', { d: 'M0' })), h('b', null, 5));
  const [words, svg, bold] = page.childNodes;
  assert.deepEqual([words.nodeType, words.data], [3, '<b>\\x1b</b>']);
  assert.equal(svg.childNodes[0].namespaceURI, 'http://www.w3.org/2000/svg');
  assert.equal(bold.namespaceURI, undefined);
  render(page, h('b', null, 5), 'x');
  assert.deepEqual(page.childNodes.map((node) => node.textContent), ['5', 'x']);
});

// The page as a tree of plain values, which render writes into the document. Cards are pure functions that return such trees, so
// that tests need no browser. Text only ever becomes text nodes: no markup is parsed.

import { printable } from './words.js';

// h makes a node. Properties are attributes; null, undefined and false leave one out, true makes it empty. Functions named on… are
// event listeners, and bind once, when the element is made. Children may be nested lists; null, undefined and false are left out.
export function h(tag, properties, ...children) {
  return { tag, properties: properties ?? {}, children: flatten(children) };
}

function flatten(children) {
  return children.flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (typeof child === 'object' ? child : printable(child)));
}

// text is all text of a tree, or of a list of them, with a blank between its parts.
export function text(...nodes) {
  return flatten(nodes).map((node) => (typeof node === 'string' ? node : text(node.children))).join(' ').replace(/\s+/g, ' ').trim();
}

// find returns the nodes of a tree, or of a list of them, that have this tag or class.
export function find(nodes, wanted) {
  return flatten([nodes]).filter((node) => typeof node !== 'string').flatMap((node) => {
    const isWanted = node.tag === wanted || (node.properties.class ?? '').split(' ').includes(wanted);
    return [...(isWanted ? [node] : []), ...find(node.children, wanted)];
  });
}

// render makes the children of an element those of the tree. It changes only what differs: focus, selected text and opened
// details stay.
export function render(parent, ...children) {
  const wanted = flatten(children);
  wanted.forEach((child, i) => {
    const have = parent.childNodes[i];
    if (!have) {
      parent.append(create(child, parent));
    } else if (!patch(have, child)) {
      have.replaceWith(create(child, parent));
    }
  });
  while (parent.childNodes.length > wanted.length) {
    parent.lastChild.remove();
  }
}

const svg = 'http://www.w3.org/2000/svg';

function create(node, parent) {
  const page = parent.ownerDocument;
  if (typeof node === 'string') {
    return page.createTextNode(node);
  }
  const isSVG = node.tag === 'svg' || parent.namespaceURI === svg;
  const element = isSVG ? page.createElementNS(svg, node.tag) : page.createElement(node.tag);
  for (const [name, value] of Object.entries(node.properties)) {
    if (typeof value === 'function') {
      element.addEventListener(name.slice(2), value);
    } else {
      setAttribute(element, name, value);
    }
  }
  render(element, node.children);
  return element;
}

// patch turns an element of the document into that of the tree; false: it is of another kind.
function patch(have, node) {
  if (typeof node === 'string') {
    if (have.nodeType !== 3) {
      return false;
    }
    if (have.data !== node) {
      have.data = node;
    }
    return true;
  }
  if (have.nodeType !== 1 || have.localName !== node.tag || have.getAttribute('data-key') !== (node.properties['data-key'] ?? null)) {
    return false;
  }
  for (const { name } of [...have.attributes]) {
    if (!(name in node.properties) && name !== 'open') { // the user opens details
      have.removeAttribute(name);
    }
  }
  for (const [name, value] of Object.entries(node.properties)) {
    if (typeof value !== 'function') {
      setAttribute(have, name, value);
    }
  }
  render(have, node.children);
  return true;
}

function setAttribute(element, name, value) {
  if (value === null || value === undefined || value === false) {
    element.removeAttribute(name);
    return;
  }
  const wanted = value === true ? '' : String(value);
  if (element.getAttribute(name) !== wanted) {
    element.setAttribute(name, wanted);
  }
}

// The page as a tree of plain values, which render writes into the document. Cards are pure
// functions that return such trees, so tests need no browser. Text only becomes text nodes: no
// markup is parsed.

import { printable } from './words.js';

// h makes a node. Properties are attributes: undefined and false omit one, true sets an empty one.
// Children may be nested lists; null, undefined and false are omitted.
export function h(tag, properties, ...children) {
  return new TreeNode(tag, properties ?? {}, flatten(children));
}

// A TreeNode is a class so that an object of parsed JSON never counts as one.
class TreeNode {
  constructor(tag, properties, children) {
    Object.assign(this, { tag, properties, children });
  }
}

function flatten(children) {
  return children.flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof TreeNode ? child : printable(child)));
}

// render replaces the children of an element by the tree. It changes only what differs, so focus,
// selected text and open details stay. An element with data-key stays, too, when others appear or
// disappear before it. It never moves, because it would lose the focus.
export function render(parent, ...children) {
  const wanted = flatten(children);
  wanted.forEach((child, i) => {
    const key = keyOf(child);
    if (key && [...parent.childNodes].some((node, at) => at > i && keyOfElement(node) === key)) {
      while (keyOfElement(parent.childNodes[i]) !== key) {
        parent.childNodes[i].remove();
      }
    }
    const have = parent.childNodes[i];
    const haveKey = have && keyOfElement(have);
    const isWantedLater = haveKey && haveKey !== key && wanted.some((later, at) => at > i && keyOf(later) === haveKey);
    if (!have || isWantedLater) {
      parent.insertBefore(create(child, parent), have ?? null);
    } else if (!patch(have, child)) {
      have.replaceWith(create(child, parent));
    }
  });
  while (parent.childNodes.length > wanted.length) {
    parent.lastChild.remove();
  }
}

function keyOf(child) {
  return child.properties?.['data-key'] ?? null;
}

function keyOfElement(node) {
  return node.nodeType === 1 ? node.getAttribute('data-key') : null;
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
    setAttribute(element, name, value);
  }
  render(element, node.children);
  return element;
}

// patch changes a node of the document into that of the tree. It returns false if they are of
// different kinds.
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
  if (have.nodeType !== 1 || have.localName !== node.tag || keyOfElement(have) !== keyOf(node)) {
    return false;
  }
  for (const { name } of [...have.attributes]) {
    if (!(name in node.properties) && name !== 'open') { // the user opens details
      have.removeAttribute(name);
    }
  }
  for (const [name, value] of Object.entries(node.properties)) {
    setAttribute(have, name, value);
  }
  render(have, node.children);
  return true;
}

function setAttribute(element, name, value) {
  if (value === undefined || value === false) {
    element.removeAttribute(name);
    return;
  }
  const wanted = value === true ? '' : String(value);
  if (element.getAttribute(name) !== wanted) {
    element.setAttribute(name, wanted);
  }
}

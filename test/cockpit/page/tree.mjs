// Inspects trees without a browser.
import { h } from '../../../cockpit/lib/dom.js';

// text returns the text of trees, with a blank between its parts.
export function text(...trees) {
  return h('', null, trees).children.map((node) => (typeof node === 'string' ? node : text(node.children))).join(' ').replace(/\s+/g, ' ').trim();
}

// find returns the nodes of a tree that have this tag or class.
export function find(tree, wanted) {
  return h('', null, tree).children.filter((node) => typeof node !== 'string').flatMap((node) => {
    const isWanted = node.tag === wanted || (node.properties.class ?? '').split(' ').includes(wanted);
    return [...(isWanted ? [node] : []), ...find(node.children, wanted)];
  });
}

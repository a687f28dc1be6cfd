// Fakes of the parts of the DOM and of cockpit.js that the page uses.

class FakeText {
  nodeType = 3;

  constructor(data) {
    this.data = data;
  }

  get textContent() {
    return this.data;
  }

  remove() {
    this.parent.childNodes.splice(this.parent.childNodes.indexOf(this), 1);
    this.parent = undefined;
  }

  replaceWith(node) {
    this.parent.insertBefore(node, this);
    this.remove();
  }
}

export class FakeElement extends FakeText {
  nodeType = 1;

  childNodes = [];

  values = new Map();

  dataset = {};

  value = ''; // of a field

  listeners = {};

  classList = { toggle() {} };

  constructor(localName, namespaceURI) {
    super('');
    Object.assign(this, { localName, namespaceURI });
  }

  ownerDocument = {
    createTextNode: (data) => new FakeText(data),
    createElement: (name) => new FakeElement(name),
    createElementNS: (namespace, name) => new FakeElement(name, namespace),
  };

  get attributes() {
    return [...this.values.keys()].map((name) => ({ name }));
  }

  get textContent() {
    return this.childNodes.map((node) => node.textContent).join('');
  }

  set textContent(text) {
    this.childNodes = [new FakeText(text)];
  }

  addEventListener(name, listener) {
    this.listeners[name] = listener;
  }

  // send calls the listener as the browser does for an event.
  send(name) {
    return this.listeners[name]({ preventDefault() {} });
  }

  get lastChild() {
    return this.childNodes.at(-1);
  }

  getAttribute(name) {
    return this.values.get(name) ?? null;
  }

  setAttribute(name, value) {
    this.values.set(name, value);
  }

  removeAttribute(name) {
    this.values.delete(name);
  }

  insertBefore(node, before) {
    if (node.parent) {
      node.remove();
    }
    const at = before ? this.childNodes.indexOf(before) : this.childNodes.length;
    this.childNodes.splice(at, 0, node);
    node.parent = this;
  }
}

// newCockpit returns a fake of cockpit.js, and the programs that it has started, the latest last.
// print writes output of a program, and end ends it as cockpit.spawn does.
export function newCockpit() {
  const programs = [];
  const spawn = (argv, options) => {
    const program = { argv, options, isClosed: false };
    const promise = new Promise((resolve, reject) => {
      program.end = (failure, output = '') => (failure ? reject(failure) : resolve(output));
    });
    promise.stream = (read) => {
      program.print = read;
      return promise;
    };
    promise.close = () => { program.isClosed = true; };
    programs.push(program);
    return promise;
  };
  return { cockpit: { spawn }, programs };
}

// settle waits until the promises that a test has resolved have called their functions.
export const settle = () => new Promise((resolve) => { setImmediate(resolve); });
